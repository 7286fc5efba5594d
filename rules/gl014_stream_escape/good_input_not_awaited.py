# right: the current stream waits for the uploader before the replay
# outcome: ok
import torch


class Uploader:
    def __init__(self, slot):
        self.slot = slot
        self.stream = torch.cuda.Stream()

    def send(self, host):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(200_000_000)
            self.slot.copy_(host, non_blocking=True)


class Histogram:
    def __init__(self, n):
        self.values = torch.zeros(n, device="cuda")
        self.uploader = Uploader(self.values)
        for _ in range(3):
            self.values.sort()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.ordered = self.values.sort().values

    def update(self, host):
        self.uploader.send(host)
        torch.cuda.current_stream().wait_stream(self.uploader.stream)
        self.graph.replay()  # fine: ordered after the upload
        return self.ordered.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    histogram, host = Histogram(64), torch.randn(64).pin_memory()
    got = histogram.update(host)
    torch.cuda.synchronize()
    same = torch.equal(got.cpu(), host.sort().values)
    print(f"OUTCOME: {'ok' if same else 'stale-result'} first value {got[0].item():.3f}")
