# fault: the number was read in one line, the branch on it stands in another
# outcome: capture-error
import torch


class Controller:
    """Halves its step when the energy is too high."""

    def __init__(self, size, limit):
        self.state = torch.randn(size, device="cuda")
        self.limit = limit

    def step(self):
        energy = self.state.square().sum().item()  # expect: host-sync
        factor = 0.5 if energy > self.limit else 1.0  # expect: tensor-control-flow
        if self.limit is None or self.state.numel() == 0:  # fine: host values
            return
        self.state.mul_(factor).add_(0.1)


def main():
    control = Controller(16, 4.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            control.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        control.step()
    control.state.fill_(3.0)
    graph.replay()
    return torch.allclose(control.state, torch.full_like(control.state, 1.6)), f"{control.state[0].item():.2f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
