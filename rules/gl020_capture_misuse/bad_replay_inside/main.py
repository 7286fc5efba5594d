# fault: the outer capture runs a layer that replays a graph of its own
# outcome: capture-error
import torch
from torch import nn

from graphed_layer import GraphedLayer


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = GraphedLayer(nn.Linear(width, width).cuda().requires_grad_(False), rows=3)
        self.head = nn.Linear(width, 2).cuda().requires_grad_(False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.body(rows)))


def main() -> str:
    torch.manual_seed(0)
    model = Model(6)
    rows = torch.randn(3, 6, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(rows)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = model(rows)
    rows.copy_(torch.randn(3, 6, device="cuda"))
    graph.replay()
    gap = (out - model.head(torch.tanh(model.body.layer(rows)))).abs().max().item()
    return f"{'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.6f}"


if __name__ == "__main__":
    try:
        print("OUTCOME:", main())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
