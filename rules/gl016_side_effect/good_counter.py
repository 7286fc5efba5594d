# right: the count is a device tensor that every replay advances; host counters stay outside the capture
# outcome: ok
import torch
from torch import nn


class RunningMean(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("total", torch.zeros(dim))
        self.register_buffer("batches", torch.zeros(()))
        self.last_shape = None

    def forward(self, x):
        self.total.add_(x.mean(0))
        self.batches += 1  # fine: a device tensor, updated in place
        scale = 1
        for _ in range(2):
            scale *= 2  # fine: a local number
        return (x - self.total) * scale

    def mean(self):
        return self.total / self.batches


@torch.no_grad()
def main():
    layer, x = RunningMean(3).cuda(), torch.ones(2, 3, device="cuda")
    for _ in range(3):
        layer(x)
    torch.cuda.synchronize()
    layer.total.zero_()
    layer.batches.zero_()
    replays = 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x)
    for _ in range(4):
        graph.replay()
        replays += 1  # fine: outside the capture
    mean = layer.mean()[0].item()
    ok = mean == 1.0 and layer.batches.item() == replays
    print(f"OUTCOME: {'ok' if ok else 'wrong-result'} mean {mean} (want 1.0), output {y[0, 0].item()}")


main()
