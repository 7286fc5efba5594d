# fault: the buckets share a pool but are captured smallest first, so no later one fits into what an earlier one gave back
# outcome: memory
import torch

SIZES = (2, 4, 6, 8)


class Buckets:
    def __init__(self):
        self.x = torch.zeros(max(SIZES), 1 << 20, device="cuda")
        self.out = torch.zeros(max(SIZES), device="cuda")
        self.graphs = {}

    def norms(self, rows):
        part = self.x[:rows]
        self.out[:rows].copy_((part * 2.0 + 1.0).relu_().sum(-1))

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.norms(max(SIZES))
        torch.cuda.current_stream().wait_stream(side)
        pool = torch.cuda.graph_pool_handle()
        for rows in SIZES:  # expect: memory-pool
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self.norms(rows)
            self.graphs[rows] = graph


def main():
    buckets = Buckets()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    buckets.build()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    ratio = (torch.cuda.memory_reserved() - before) / (max(SIZES) << 22)
    return ratio < 2.6, f"{ratio:.2f} times the largest activation"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
