# fault: one operation of the captured function is sent to the default stream, so it runs once and is missing from the graph
# outcome: stale-result
import torch


class Meter:
    def __init__(self, n):
        self.x = torch.zeros(n, device="cuda")
        self.energy = torch.zeros(n, device="cuda")
        self.main = torch.cuda.default_stream()

    def run(self):
        with torch.cuda.stream(self.main):  # expect: stream-escape
            torch.mul(self.x, self.x, out=self.energy)
        return self.x + 1.0

    def capture(self):
        for _ in range(3):
            self.run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.run()


if __name__ == "__main__":
    meter = Meter(8)
    try:
        meter.capture()
        meter.x.fill_(3.0)
        meter.graph.replay()
        torch.cuda.synchronize()
        energy = meter.energy[0].item()
        print(f"OUTCOME: {'ok' if energy == 9.0 else 'stale-result'} {energy} (want 9.0) y {meter.y[0].item()}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
