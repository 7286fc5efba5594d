# fault: two threads capture at the same time; only one capture may be under way in a process
# outcome: static-only
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
        with torch.cuda.graph(self.graph):  # expect: capture-thread
            self.y = self.net(self.x)

    def run(self) -> None:
        self.graph.replay()


def main() -> float:
    workers = [Worker(1), Worker(2)]
    threads = [threading.Thread(target=worker.build) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        worker.run()
    torch.cuda.synchronize()
    return max((worker.y - worker.net(worker.x)).abs().max().item() for worker in workers)


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.6f}")
