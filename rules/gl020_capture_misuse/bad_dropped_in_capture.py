# fault: the last reference to the old graph is dropped while the new one is being captured
# outcome: capture-error
import torch


class Blur:
    def __init__(self) -> None:
        self.taps = torch.tensor([0.25, 0.5, 0.25], device="cuda")
        self.image = torch.ones(16, device="cuda")
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}

    def body(self, size: int) -> torch.Tensor:
        return (self.image[:size].unfold(0, 3, 1) * self.taps).sum(-1)

    def resize(self, size: int) -> None:
        self.body(size)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.graphs.clear()  # expect: capture-misuse
            self.out = self.body(size)
        self.graphs["blur"] = graph

    def run(self, value: float) -> float:
        self.image.fill_(value)
        self.graphs["blur"].replay()
        return self.out.sum().item()  # fine: after the replay


if __name__ == "__main__":
    blur = Blur()
    try:
        blur.resize(6)
        blur.run(1.0)
        blur.resize(10)
        got = blur.run(3.0)
        print("OUTCOME:", "ok" if got == 24.0 else "wrong-result", got)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
