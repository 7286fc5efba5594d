# fault: the window length is frozen into the graph as a slice, but the key is the batch size
# outcome: wrong-result
import torch

history = torch.randn(4, 16, generator=torch.Generator().manual_seed(0)).cuda()
graphs: dict[object, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
pool = torch.cuda.graph_pool_handle()


def recent_mean(batch: int, window: int) -> torch.Tensor:
    return history[:batch, -window:].mean(-1)


def graphed_mean(batch: int, window: int) -> torch.Tensor:
    entry = graphs.get(batch)
    if entry is None:
        recent_mean(batch, window)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            mean = recent_mean(batch, window)
        graphs[batch] = entry = (graph, mean)  # expect: graph-key
    graph, mean = entry
    graph.replay()
    return mean.clone()


if __name__ == "__main__":
    worst = 0.0
    for batch, window in ((4, 8), (4, 3), (2, 5)):
        worst = max(worst, (graphed_mean(batch, window) - recent_mean(batch, window)).abs().max().item())
    print("OUTCOME:", "ok" if worst < 1e-5 else "wrong-result", f"worst gap {worst:.4f}")
