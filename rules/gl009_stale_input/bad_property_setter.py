# fault: a property binds a new tensor, where the graph reads the old one
# outcome: stale-result
import torch


class Gauge:
    def __init__(self, width):
        self._level = torch.zeros(width, device="cuda")
        self._level.amax()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.peak = self._level.amax()

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, value):
        self._level = value  # expect: stale-input


def main():
    gauge = Gauge(4)
    peaks = []
    for top in (2.0, 5.0):
        gauge.level = torch.full((4,), top, device="cuda")
        gauge.graph.replay()
        peaks.append(gauge.peak.item())
    return peaks == [2.0, 5.0], f"{peaks}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
