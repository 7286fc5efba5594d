# right: pinned memory that is kept, copied with non_blocking=True
# outcome: ok
import torch


class Feed:
    def __init__(self, n):
        self.host = torch.zeros(n, pin_memory=True)
        self.device = torch.zeros(n, device="cuda")

    def pull(self):
        self.device.copy_(self.host, non_blocking=True)  # fine: pinned, not blocking, kept alive by self
        return self.device * 2


if __name__ == "__main__":
    feed = Feed(16)
    for _ in range(3):
        feed.pull()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = feed.pull()
    feed.host.fill_(3.0)
    graph.replay()
    total = out.sum().item()
    print(f"OUTCOME: {'ok' if total == 96.0 else 'wrong-result'} {total} (want 96)")
