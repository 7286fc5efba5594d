# right: part of main.py
# outcome: ok
import torch
from torch import nn


class CosineHead(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width))

    @property
    def norm(self) -> torch.Tensor:  # fine: computed at every call
        return self.weight.detach().norm(dim=1, keepdim=True)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ (self.weight / self.norm).t()
