# fault: a second call of the capturing method captures into a graph that already holds one
# outcome: capture-error
import torch
from torch import nn


class Planner:
    def __init__(self, horizon: int) -> None:
        self.policy = nn.Linear(4, 4).cuda().requires_grad_(False)
        self.states = torch.zeros(8, 4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.captured = False
        self.build(horizon)

    def build(self, horizon: int) -> None:
        self.policy(self.states[:horizon])
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):  # expect: capture-misuse
            self.plan = self.policy(self.states[:horizon])
        self.captured = True

    def run(self, state: torch.Tensor) -> torch.Tensor:
        self.states[: len(state)].copy_(state)
        self.graph.replay()
        return self.plan.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        planner = Planner(3)
        planner.run(torch.randn(3, 4, device="cuda"))
        planner.build(5)
        state = torch.randn(5, 4, device="cuda")
        gap = (planner.run(state) - planner.policy(state)).abs().max().item()
        print("OUTCOME:", "ok" if gap < 1e-4 else "wrong-result", f"off by {gap:.6f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
