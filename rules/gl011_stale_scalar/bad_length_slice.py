# fault: the captured window of the history is cut with a Python length that grows between replays
# outcome: wrong-result
import torch


class Trend:
    """Mean of the values seen so far."""

    def __init__(self, capacity):
        self.values = torch.zeros(capacity, device="cuda")
        self.count = 1

    def forward(self):
        return self.values[: self.count].sum()  # expect: stale-scalar

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.total = self.forward()

    def push(self, value):
        self.values[self.count - 1 : self.count] = value
        self.graph.replay()
        mean = self.total.item() / self.count
        self.count += 1
        return mean


if __name__ == "__main__":
    trend = Trend(8)
    trend.capture()
    means = [trend.push(v) for v in (2.0, 4.0, 6.0)]
    print(f"OUTCOME: {'ok' if means == [2.0, 3.0, 4.0] else 'wrong-result'} {means}")
