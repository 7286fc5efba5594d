# fault: graphs are keyed by (rows, half), their scale buffers only by rows: a refresh writes the buffer of the other graph
# outcome: stale-result
import torch


class Quantiser:
    def __init__(self, rows: int, width: int) -> None:
        self.x = torch.ones(rows, width, device="cuda")
        self.scales: dict[object, torch.Tensor] = {}
        self.held: list[torch.Tensor] = []
        self.graphs: dict[object, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        self.pool = torch.cuda.graph_pool_handle()

    def capture(self, rows: int, half: bool) -> None:
        scale = torch.ones(rows, 1, device="cuda")
        self.held.append(scale)  # fine: keeps the buffer alive as long as the graphs
        self.scales[rows] = scale  # expect: graph-key
        self.body(scale, half)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self.body(scale, half)
        self.graphs[rows, half] = (graph, out)

    def body(self, scale: torch.Tensor, half: bool) -> torch.Tensor:
        scaled = self.x * scale
        return scaled.half() if half else scaled

    def run(self, scale: float, half: bool) -> float:
        rows = self.x.shape[0]
        self.scales[rows].fill_(scale)
        graph, out = self.graphs[rows, half]
        graph.replay()
        return out.sum().item()


if __name__ == "__main__":
    quantiser = Quantiser(2, 4)
    for half in (False, True):
        quantiser.capture(2, half)
    got = [quantiser.run(2.0, True), quantiser.run(3.0, False)]
    print("OUTCOME:", "ok" if got == [16.0, 24.0] else "stale-result", got)
