# right: the fold is part of the captured work, so each replay folds the live weight
# outcome: ok
import torch
from torch import nn


class FoldedLinear(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        folded = (self.weight * self.gain).t().contiguous()  # fine: a new tensor, but made inside the graph
        return rows @ folded


class Agent:
    def __init__(self, width: int) -> None:
        self.net = FoldedLinear(width).cuda()
        self.rows = torch.zeros(2, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad():
            self.net(self.rows)
            torch.cuda.synchronize()
            with torch.cuda.graph(self.graph):
                self.out = self.net(self.rows)

    def act(self, rows: torch.Tensor) -> torch.Tensor:
        self.rows.copy_(rows)
        self.graph.replay()
        return self.out.clone()

    @torch.no_grad()
    def learn(self) -> None:
        self.net.gain.add_(0.5)


if __name__ == "__main__":
    torch.manual_seed(0)
    agent, rows = Agent(6), torch.randn(2, 6, device="cuda")
    agent.learn()
    with torch.no_grad():
        want = rows @ (agent.net.weight * agent.net.gain).t()
    gap = (agent.act(rows) - want).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-4 else "stale-result", f"off by {gap:.4f} after one update")
