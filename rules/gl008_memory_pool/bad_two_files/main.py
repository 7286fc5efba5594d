# fault: after every change of the weights' layout a new graph is captured, and the old ones stay in a list
# outcome: memory
import torch
from recorder import record
from torch import nn


class Renewing:
    def __init__(self, net, rows):
        self.net = net
        self.x = torch.zeros(rows, 64, device="cuda")
        self.side = torch.cuda.Stream()
        self.history = []

    def renew(self):
        graph, out = record(self.net, self.x, self.side)
        self.history.append((graph, out))  # expect: memory-pool

    def __call__(self, x):
        self.x.copy_(x)
        graph, out = self.history[-1]
        graph.replay()
        return out.clone()


def main():
    runner = Renewing(nn.Linear(64, 1 << 12).cuda().requires_grad_(False), 1024)
    runner.renew()
    torch.cuda.synchronize()
    first = torch.cuda.memory_allocated()
    for _ in range(5):
        runner.renew()
    torch.cuda.synchronize()
    grown = (torch.cuda.memory_allocated() - first) >> 20
    x = torch.randn(1024, 64, device="cuda")
    gap = (runner(x) - runner.net(x)).abs().max().item()
    return grown < 16 and gap < 1e-4, f"{grown} MiB more after five renewals"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
