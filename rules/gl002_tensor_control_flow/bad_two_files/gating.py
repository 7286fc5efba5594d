import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, width, threshold=1.0):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.threshold = threshold

    def forward(self, x):
        y = self.lin(x)
        if self.training and self.threshold is None:  # fine: host values
            return y
        if y.abs().amax() > self.threshold:  # expect: tensor-control-flow
            y = torch.tanh(y)
        return y
