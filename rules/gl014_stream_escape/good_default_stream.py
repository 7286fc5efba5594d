# right: captured work stays on the current stream; the default stream is used between replays only
# outcome: ok
import torch


class Meter:
    def __init__(self, n):
        self.x = torch.zeros(n, device="cuda")
        self.energy = torch.zeros(n, device="cuda")
        self.main = torch.cuda.default_stream()

    def run(self):
        torch.mul(self.x, self.x, out=self.energy)
        return self.x + 1.0

    def capture(self):
        for _ in range(3):
            self.run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.run()

    def set(self, value):
        with torch.cuda.stream(self.main):  # fine: outside the capture, on the stream that replays
            self.x.fill_(value)


if __name__ == "__main__":
    meter = Meter(8)
    meter.capture()
    meter.set(3.0)
    meter.graph.replay()
    torch.cuda.synchronize()
    energy = meter.energy[0].item()
    print(f"OUTCOME: {'ok' if energy == 9.0 else 'stale-result'} {energy} (want 9.0) y {meter.y[0].item()}")
