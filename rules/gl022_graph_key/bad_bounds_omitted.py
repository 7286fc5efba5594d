# fault: the segment bounds are frozen as slices, but only their number is in the key
# outcome: wrong-result
import torch


class SegmentSum:
    """Sums stretches of one signal; the stretches come as Python numbers."""

    def __init__(self, size: int) -> None:
        self.signal = torch.zeros(size, device="cuda")
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[object, torch.cuda.CUDAGraph] = {}
        self.sums: dict[object, torch.Tensor] = {}

    def body(self, bounds: tuple[int, ...]) -> torch.Tensor:
        return torch.stack([self.signal[a:b].sum() for a, b in zip(bounds, bounds[1:])])

    def run(self, signal: torch.Tensor, bounds: tuple[int, ...]) -> list[float]:
        self.signal.copy_(signal)
        key = len(bounds)
        if key not in self.graphs:
            self.body(bounds)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.sums[key] = self.body(bounds)
            self.graphs[key] = graph  # expect: graph-key
        self.graphs[key].replay()
        return self.sums[key].tolist()  # fine: after the replay


if __name__ == "__main__":
    segments = SegmentSum(6)
    signal = torch.arange(6.0, device="cuda")
    first = segments.run(signal, (0, 2, 6))
    second = segments.run(signal, (0, 5, 6))
    good = first == [1.0, 14.0] and second == [10.0, 5.0]
    print("OUTCOME:", "ok" if good else "wrong-result", first, second)
