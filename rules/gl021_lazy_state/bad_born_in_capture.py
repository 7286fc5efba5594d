# fault: the state is dropped after the warm-up, so it is made anew inside the capture, and every replay starts from zero
# outcome: wrong-result
import torch
from torch import nn


class Smoother(nn.Module):
    """A running blend of everything it was shown."""

    def forget(self) -> None:
        if hasattr(self, "level"):
            del self.level

    def forward(self, reading: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "level"):
            self.level = torch.zeros_like(reading)  # expect: lazy-state
        self.level.lerp_(reading, 0.5)
        return self.level * 1.0


def main() -> tuple[float, float]:
    smoother = Smoother()
    reading = torch.zeros(5, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        smoother(reading)
    torch.cuda.current_stream().wait_stream(side)
    smoother.forget()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        blended = smoother(reading)
    want = 0.0
    for value in (4.0, 8.0, 2.0):
        reading.fill_(value)
        graph.replay()
        want = (want + value) / 2
    return blended[0].item(), want


if __name__ == "__main__":
    got, want = main()
    print("OUTCOME:", "ok" if abs(got - want) < 1e-5 else "wrong-result", f"blend {got:.3f}, should be {want:.3f}")
