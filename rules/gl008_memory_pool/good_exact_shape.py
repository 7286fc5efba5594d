# right: rows are padded to a few buckets, so few graphs are kept
# outcome: ok
import torch
from torch import nn


class Blend:
    def __init__(self):
        self.kept = {}
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, x):
        rows = x.shape[0]
        x = nn.functional.pad(x, (0, 0, 0, -rows % 64))
        key = x.shape
        if key not in self.kept:
            self.kept[key] = self.record(x)
        graph, source, mixed = self.kept[key]
        source.copy_(x)
        graph.replay()
        return mixed[:rows].clone()

    def record(self, x):
        source = x.clone()
        source.softmax(-1)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            mixed = source.softmax(-1)
        return graph, source, mixed


def main():
    blend = Blend()
    for rows in range(1, 60):
        blend(torch.randn(rows, 8, device="cuda"))
    return len(blend.kept) < 4, f"{len(blend.kept)} graphs"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
