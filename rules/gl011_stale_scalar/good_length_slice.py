# right: the graph works on the whole buffer and masks with a length that lives on the device
# outcome: ok
import torch


class Trend:
    """Mean of the values seen so far."""

    def __init__(self, capacity):
        self.values = torch.zeros(capacity, device="cuda")
        self.slots = torch.arange(capacity, device="cuda")
        self.length = torch.ones((), dtype=torch.long, device="cuda")
        self.capacity = capacity
        self.count = 1

    def forward(self):
        used = self.slots[: self.capacity] < self.length  # fine: the capacity never changes
        return torch.where(used, self.values, 0.0).sum()

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
        self.values[self.count - 1 : self.count] = value  # fine: eager, between replays
        self.length.fill_(self.count)
        self.graph.replay()
        mean = self.total.item() / self.count
        self.count += 1
        return mean


if __name__ == "__main__":
    trend = Trend(8)
    trend.capture()
    means = [trend.push(v) for v in (2.0, 4.0, 6.0)]
    print(f"OUTCOME: {'ok' if means == [2.0, 3.0, 4.0] else 'wrong-result'} {means}")
