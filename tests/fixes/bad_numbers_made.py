# fault: numbers from attributes, arguments and tuples are made into CUDA tensors in the captured function
# outcome: capture-error
import torch

TAPS = (1, 2.5)


class Shelf:
    def __init__(self) -> None:
        self.gain = 0.5


def blend(x: torch.Tensor, shelf: Shelf, order: int) -> torch.Tensor:
    y = x * torch.tensor(shelf.gain, device=x.device) + torch.tensor(order, device=x.device)
    y = y + torch.tensor(order * 2, device="cuda")
    y = y - torch.as_tensor([0.25, 0.25], device=x.device)
    return y * torch.tensor(TAPS, device=x.device, dtype=x.dtype)


if __name__ == "__main__":
    shelf, x = Shelf(), torch.ones(3, 2, device="cuda")
    want = blend(x, shelf, 3)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = blend(x, shelf, 3)
        graph.replay()
        same = torch.equal(out, want) and out.dtype == want.dtype
        print("OUTCOME:", "ok" if same else "wrong-result")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
