# right: the context gate is computed at every call, also in the graph
# outcome: ok
import torch
from torch import nn


class ContextGate(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, rows: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(context.mean(0))
        return self.proj(rows) * gate


def main() -> float:
    torch.manual_seed(0)
    block, plain = ContextGate(4).cuda(), ContextGate(4).cuda()
    plain.load_state_dict(block.state_dict())
    sample = (torch.randn(3, 4, device="cuda"), torch.randn(5, 4, device="cuda"))
    graphed = torch.cuda.make_graphed_callables(block, sample)  # fine: it warms up by itself
    rows, context = torch.randn(3, 4, device="cuda"), torch.randn(5, 4, device="cuda") + 3
    return (graphed(rows, context) - plain(rows, context)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "stale-result", f"off by {gap:.4f}")
