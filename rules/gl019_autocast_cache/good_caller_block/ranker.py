# right: part of main.py
# outcome: ok
import torch
from torch import nn


def preview(net: nn.Module, queries: torch.Tensor) -> None:
    """One eager pass on a side stream; it also warms the kernels up."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        net(queries)
    torch.cuda.current_stream().wait_stream(side)


class GraphedRanker:
    def __init__(self, net: nn.Module, queries: torch.Tensor) -> None:
        self.net = net
        self.queries = queries.clone()
        self.graph = torch.cuda.CUDAGraph()

    def capture(self) -> None:
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.scores = self.net(self.queries)

    def rank(self, queries: torch.Tensor) -> torch.Tensor:
        self.queries.copy_(queries)
        self.graph.replay()
        return self.scores.clone()
