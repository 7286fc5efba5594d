# right: inside a manual capture the function is compiled without CUDA graphs, and warmed up first
# outcome: ok
import torch


@torch.compile
def soften(x):
    return torch.tanh(x) * 0.5 + x


@torch.compile(mode="max-autotune-no-cudagraphs")
def lift(x):
    return x + 1.0


@torch.no_grad()
def main():
    x = torch.ones(8, device="cuda")
    for _ in range(3):
        lift(soften(x))
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = lift(soften(x))  # fine: plain kernels
    x.fill_(3.0)
    graph.replay()
    gap = (y - torch.tanh(x) * 0.5 - x - 1.0).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.3f}")


main()
