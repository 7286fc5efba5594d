# fault: the clamp is left out while capturing, so replays return values that the eager function never would
# outcome: wrong-result
import torch


def saturate(signal: torch.Tensor, limit: float) -> torch.Tensor:
    out = signal * 4.0
    if not torch.cuda.is_current_stream_capturing():  # expect: capture-branch
        out = out.clamp(-limit, limit)
    return out


if __name__ == "__main__":
    signal = torch.linspace(-1, 1, 9, device="cuda")
    saturate(signal, 2.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = saturate(signal, 2.0)
    graph.replay()
    gap = (out - saturate(signal, 2.0)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-6 else "wrong-result", f"off by {gap:.3f}")
