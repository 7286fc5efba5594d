# right: the store's key names the adapter as well
# outcome: ok
import torch
from torch import nn

from store import GraphStore


class Translator(nn.Module):
    def __init__(self, width: int, names: tuple[str, ...]) -> None:
        super().__init__()
        self.base = nn.Linear(width, width)
        self.adapters = nn.ModuleDict({name: nn.Linear(width, width) for name in names})

    def forward(self, rows: torch.Tensor, adapter: str) -> torch.Tensor:
        return self.base(rows) + self.adapters[adapter](rows)


def main() -> float:
    torch.manual_seed(0)
    model = Translator(4, ("polite", "terse")).cuda().requires_grad_(False)
    store = GraphStore(model)
    worst = 0.0
    for adapter in ("polite", "terse"):
        rows = torch.randn(3, 4, device="cuda")
        worst = max(worst, (store.run(rows, adapter) - model(rows, adapter)).abs().max().item())
    return worst


if __name__ == "__main__":
    worst = main()
    print("OUTCOME:", "ok" if worst < 1e-5 else "wrong-result", f"worst gap {worst:.4f}")
