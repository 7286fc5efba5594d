# fault: part of main.py; replays its own graph even while another capture is under way
# outcome: capture-error
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
        self.static_in.copy_(rows)
        self.graph.replay()  # expect: capture-misuse
        return self.static_out.clone()
