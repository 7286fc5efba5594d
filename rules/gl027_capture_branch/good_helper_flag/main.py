# right: the helper only guards a log line
# outcome: ok
import torch
from torch import nn

from capturing import in_graph


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(rows).tanh()
        if not in_graph():  # fine: nothing but a log line
            print("mean", hidden.mean().item())
        return hidden + rows


def main() -> float:
    torch.manual_seed(0)
    block = Residual(5).cuda().requires_grad_(False)
    rows = torch.randn(2, 5, device="cuda")
    block(rows)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = block(rows)
    rows.fill_(2.0)
    graph.replay()
    return (out - block(rows)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.4f}")
