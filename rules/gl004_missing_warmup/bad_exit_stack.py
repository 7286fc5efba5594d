# fault: a capture opened through an exit stack is the first to run the layer
# outcome: capture-error
import contextlib

import torch
from torch import nn


def record(layer, x, graph):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch.cuda.graph(graph))  # expect: missing-warmup
        y = layer(x)
    return y


def main():
    layer = nn.Linear(6, 3).cuda().requires_grad_(False)
    x = torch.randn(4, 6, device="cuda")
    graph = torch.cuda.CUDAGraph()
    y = record(layer, x, graph)
    graph.replay()
    gap = (y - layer(x)).abs().max().item()
    return gap < 1e-5, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
