# right: the side stream waits for the capture stream first, and the capture stream waits for it at the end
# outcome: ok
import torch
from torch import nn


class Monitor(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Linear(dim, dim)
        self.stats_stream = torch.cuda.Stream()
        self.register_buffer("peak", torch.zeros(dim))

    def forward(self, x):
        here = torch.cuda.current_stream()
        self.stats_stream.wait_stream(here)
        with torch.cuda.stream(self.stats_stream):  # fine: forked above, joined below
            torch.mul(x[0], 2.0, out=self.peak)
        y = self.net(x)
        here.wait_stream(self.stats_stream)
        return y


@torch.no_grad()
def main():
    monitor, x = Monitor(4).cuda(), torch.zeros(2, 4, device="cuda")
    for _ in range(3):
        monitor(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with torch.cuda.stream(torch.cuda.current_stream()):  # fine: the capture stream itself
            y = monitor(x)
    x.fill_(1.0)
    graph.replay()
    torch.cuda.synchronize()
    peak = monitor.peak[0].item()
    print(f"OUTCOME: {'ok' if peak == 2.0 else 'stale-result'} peak {peak} (want 2.0), output {tuple(y.shape)}")


main()
