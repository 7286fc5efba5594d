# right: the flag only picks another implementation of the same maths
# outcome: ok
import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.shift = nn.Parameter(torch.full((width,), 3.0))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():  # fine: addmm is the same product and sum
            return torch.addmm(self.shift, rows, self.weight)
        return rows @ self.weight + self.shift


@torch.no_grad()
def main() -> float:
    torch.manual_seed(0)
    layer = Affine(4).cuda()
    rows = torch.randn(3, 4, device="cuda")
    torch.addmm(layer.shift, rows, layer.weight)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        layer(rows)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = layer(rows)
    rows.normal_()
    graph.replay()
    return (out - layer(rows)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-4 else "wrong-result", f"off by {gap:.4f}")
