# fault: part of main.py; cached_property keeps the first norm
# outcome: stale-result
import functools

import torch
from torch import nn


class CosineHead(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, width))

    @functools.cached_property
    def norm(self) -> torch.Tensor:  # expect: lazy-state
        return self.weight.detach().norm(dim=1, keepdim=True)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ (self.weight / self.norm).t()
