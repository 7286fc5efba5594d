# right: the graphs are captured one after the other, and only then replayed from threads
# outcome: ok
# whether the two meet is a matter of timing
import threading

import torch
from torch import nn


class Worker:
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.net = nn.Linear(6, 6).cuda().requires_grad_(False)
        self.x = torch.ones(2, 6, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def build(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.net(self.x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.y = self.net(self.x)

    def run(self) -> None:
        self.graph.replay()


def main() -> float:
    workers = [Worker(1), Worker(2)]
    for worker in workers:
        worker.build()
    threads = [threading.Thread(target=worker.run) for worker in workers]  # fine: they replay, they do not capture
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    return max((worker.y - worker.net(worker.x)).abs().max().item() for worker in workers)


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.6f}")
