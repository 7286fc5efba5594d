import torch


def record(fn, *args):
    """Captures one call of `fn`; the caller keeps the arguments alive."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):  # expect: missing-warmup
        out = fn(*args)
    return graph, out
