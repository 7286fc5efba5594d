# fault: one graph for every length that comes along, kept for ever
# outcome: memory
import torch


class Cumulator:
    def __init__(self, longest):
        self.x = torch.zeros(longest, 4096, device="cuda")
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs = {}

    def capture(self, length):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.x[:length].cumsum(0)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.x[:length].cumsum(0)
        return graph, out

    def __call__(self, x):
        n = x.shape[0]
        length = n
        if length not in self.graphs:
            self.graphs[length] = self.capture(length)  # expect: memory-pool
        graph, out = self.graphs[length]
        self.x[:n].copy_(x)
        self.x[n:].zero_()
        graph.replay()
        return out[:n].clone()


def main():
    run = Cumulator(64)
    for n in range(40, 0, -1):
        x = torch.randn(n, 4096, device="cuda")
        if not torch.allclose(run(x), x.cumsum(0), atol=1e-3):
            return False, f"wrong at {n}"
    return len(run.graphs) <= 8, f"{len(run.graphs)} graphs after 40 requests"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "memory", note)
