# fault: the statistics run on a side stream that is neither forked from the capture nor joined, so the graph lacks them
# outcome: stale-result
import torch
from torch import nn


class Monitor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Linear(dim, dim)
        self.stats_stream = torch.cuda.Stream()
        self.register_buffer("peak", torch.zeros(dim))

    def forward(self, x):
        with torch.cuda.stream(self.stats_stream):  # expect: stream-escape
            torch.mul(x[0], 2.0, out=self.peak)
        return self.net(x)


@torch.no_grad()
def main():
    monitor, x = Monitor(4).cuda(), torch.zeros(2, 4, device="cuda")
    for _ in range(3):
        monitor(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = monitor(x)
    torch.cuda.synchronize()
    x.fill_(1.0)
    graph.replay()
    torch.cuda.synchronize()
    peak = monitor.peak[0].item()
    print(f"OUTCOME: {'ok' if peak == 2.0 else 'stale-result'} peak {peak} (want 2.0), output {tuple(y.shape)}")


main()
