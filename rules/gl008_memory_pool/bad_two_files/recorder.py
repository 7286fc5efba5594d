import torch


def record(net, x, side):
    """Warms up on `side` and captures `net(x)`; one side stream for all, since each keeps a cuBLAS workspace."""
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net(x)
    return graph, out
