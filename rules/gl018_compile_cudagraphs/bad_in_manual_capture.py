# fault: a function compiled with CUDA graphs of its own is called inside a manual capture
# outcome: capture-error
import torch


@torch.compile(mode="reduce-overhead")
def soften(x):
    return torch.tanh(x) * 0.5 + x


@torch.no_grad()
def main():
    x = torch.ones(8, device="cuda")
    for _ in range(2):
        soften(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            y = soften(x) + 1.0  # expect: compile-cudagraphs
        x.fill_(3.0)
        graph.replay()
        gap = (y - torch.tanh(x) * 0.5 - x - 1.0).abs().max().item()
        print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.3f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0][:120])


main()
