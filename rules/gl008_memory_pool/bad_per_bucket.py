# fault: every bucket gets a pool of its own, though only one graph runs at a time
# outcome: memory
import torch


class Smoother:
    def __init__(self, sizes):
        self.x = torch.zeros(sizes[0], 1 << 20, device="cuda")
        self.graphs, self.outs = {}, {}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.smooth(sizes[0])
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        self.before = torch.cuda.memory_reserved()
        for rows in sizes:  # fine: largest first
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):  # expect: memory-pool
                out = self.smooth(rows)
            self.graphs[rows], self.outs[rows] = graph, out

    def smooth(self, rows):
        x = self.x[:rows]
        for _ in range(2):
            x = torch.lerp(x, x.roll(1, -1), 0.5)
        return x.mean(-1)

    def __call__(self, x):
        rows = x.shape[0]
        self.x[:rows].copy_(x)
        self.graphs[rows].replay()
        return self.outs[rows].clone()


def main():
    smooth = Smoother((16, 12, 8, 4))
    ratio = (torch.cuda.memory_reserved() - smooth.before) / (16 << 22)
    x = torch.randn(8, 1 << 20, device="cuda")
    gap = (smooth(x) - x.mean(-1)).abs().max().item()
    return ratio < 4.5 and gap < 1e-3, f"{ratio:.2f} times the largest activation"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
