# fault: a blocking copy waits for the stream, even from pinned memory
# outcome: capture-error
import torch


class Feed:
    def __init__(self, n):
        self.host = torch.zeros(n, pin_memory=True)
        self.device = torch.zeros(n, device="cuda")

    def pull(self):
        self.device.copy_(self.host)  # expect: host-copy
        return self.device * 2


if __name__ == "__main__":
    feed = Feed(16)
    for _ in range(3):
        feed.pull()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = feed.pull()
        graph.replay()
        print("OUTCOME: ok", out.sum().item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
