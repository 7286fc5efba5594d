# fault: graphs are looked up by size alone, with several spellings, while a flag decides what was captured
# outcome: wrong-result
import torch

table: dict[object, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
pool = torch.cuda.graph_pool_handle()
signal = torch.ones(8, device="cuda")


def work(size: int, squared: bool) -> torch.Tensor:
    return signal[:size].square().sum() if squared else signal[:size].sum()


def run(size: int, squared: bool) -> float:
    if size not in table:
        work(size, squared)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            out = work(size, squared)
        table[size] = (graph, out)
    graph, out = table[size]
    graph.replay()
    return out.item()


if __name__ == "__main__":
    signal.fill_(3.0)
    got = [run(4, False), run(4, True), run(2, True)]
    print("OUTCOME:", "ok" if got == [12.0, 36.0, 18.0] else "wrong-result", got)
