# fault: the layer counts its calls in Python; the count stands still during replays and the caller relies on it
# outcome: wrong-result
import torch
from torch import nn


class RunningMean(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("total", torch.zeros(dim))
        self.batches = 0

    def forward(self, x):
        self.total.add_(x.mean(0))
        self.batches += 1  # expect: side-effect
        return x - self.total

    def mean(self):
        return self.total / self.batches


@torch.no_grad()
def main():
    layer, x = RunningMean(3).cuda(), torch.ones(2, 3, device="cuda")
    for _ in range(3):
        layer(x)
    torch.cuda.synchronize()
    layer.total.zero_()
    layer.batches = 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x)
    for _ in range(4):
        graph.replay()
    mean = layer.mean()[0].item()
    print(f"OUTCOME: {'ok' if mean == 1.0 else 'wrong-result'} mean {mean} (want 1.0), output {y[0, 0].item()}")


main()
