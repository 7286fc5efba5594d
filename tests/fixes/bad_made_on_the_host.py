# fault: a table is computed on the CPU in the captured function and moved, and its result is handed to the host
# outcome: capture-error
import torch


def angles(count: int, device: torch.device) -> torch.Tensor:
    steps = torch.arange(count, dtype=torch.float32)
    return (steps / count).mul(torch.pi).to(device)


class Wheel:
    def __init__(self, count: int) -> None:
        self.radius = torch.ones(count, device="cuda")

    def turn(self) -> object:
        position = self.radius * angles(self.radius.shape[0], self.radius.device).cos()
        return position.cpu().numpy()


if __name__ == "__main__":
    wheel = Wheel(6)
    wheel.turn()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            position = wheel.turn()
        graph.replay()
        print("OUTCOME: ok", type(position).__name__)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
