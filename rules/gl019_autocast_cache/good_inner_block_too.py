# right: the outer block is gone, so the block inside the capture is the outermost and its first cast is captured
# outcome: ok
import contextlib

import torch
from torch import nn


class Reward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proj = nn.Linear(10, 1)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return self.proj(states).squeeze(-1).float()


def capture(model: Reward, states: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    graph = torch.cuda.CUDAGraph()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for _ in range(2):
            model(states)
        torch.cuda.synchronize()  # fine: before the capture
        with torch.cuda.graph(graph):
            value = model(states)
    return graph, value


def main() -> None:
    torch.manual_seed(0)
    model = Reward().cuda()
    states = torch.randn(7, 10, device="cuda")
    graph, value = capture(model, states)
    with torch.no_grad():
        model.proj.weight.mul_(-3.0)
    graph.replay()
    with torch.no_grad():
        gap = (value - model(states)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 0.05 else "stale-result", f"off by {gap:.3f} after the reward head changed")


if __name__ == "__main__":
    main()
