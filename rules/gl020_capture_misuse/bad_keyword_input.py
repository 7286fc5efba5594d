# fault: a graphed callable takes positional tensors only; the keyword argument is refused
# outcome: capture-error
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, rows: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return self.mix(rows) * torch.sigmoid(gate)


def main() -> str:
    torch.manual_seed(0)
    eager = Gate(5).cuda()
    plain = Gate(5).cuda()
    plain.load_state_dict(eager.state_dict())
    rows, gate = torch.randn(2, 5, device="cuda"), torch.randn(2, 5, device="cuda")
    graphed = torch.cuda.make_graphed_callables(eager, (torch.zeros_like(rows), torch.zeros_like(gate)))
    out = graphed(rows, gate=gate)  # expect: capture-misuse
    gap = (out - plain(rows, gate)).abs().max().item()
    return f"{'ok' if gap < 1e-5 else 'wrong-result'} off by {gap:.6f}"


if __name__ == "__main__":
    try:
        print("OUTCOME:", main())
    except (RuntimeError, TypeError) as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
