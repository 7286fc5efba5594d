# fault: the graph is captured while a worker of the executor copies the next batch to the GPU
# outcome: static-only
# whether the two meet is a matter of timing
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn


class Prefetcher:
    def __init__(self) -> None:
        self.workers = ThreadPoolExecutor(max_workers=1)
        self.pending: Future[torch.Tensor] | None = None

    def load(self, seed: int) -> torch.Tensor:
        return torch.randn(64, 8, generator=torch.Generator().manual_seed(seed)).cuda()

    def start(self, seed: int) -> None:
        self.pending = self.workers.submit(self.load, seed)

    def take(self) -> torch.Tensor:
        assert self.pending is not None
        return self.pending.result()


def main() -> float:
    net = nn.Linear(8, 1).cuda().requires_grad_(False)
    static = torch.zeros(64, 8, device="cuda")
    net(static)
    torch.cuda.synchronize()
    feed = Prefetcher()
    feed.start(0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: capture-thread
        scores = net(static)
    batch = feed.take()
    static.copy_(batch)
    graph.replay()
    feed.workers.shutdown()
    return (scores - net(batch)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.6f}")
