# right: part of main.py
# outcome: ok
import torch
from torch import nn


class GraphedLayer(nn.Module):
    def __init__(self, layer: nn.Module, rows: int) -> None:
        super().__init__()
        self.layer = layer
        self.static_in = torch.zeros(rows, layer.in_features, device="cuda")
        self.layer(self.static_in)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.static_out = self.layer(self.static_in)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if torch.cuda.is_current_stream_capturing():
            return self.layer(rows)  # fine: the same layer, without its graph
        self.static_in.copy_(rows)
        self.graph.replay()  # fine: never reached while capturing
        return self.static_out.clone()
