# fault: a function returns early by a tensor's value, and another mixes Python's operators with tensors
# outcome: capture-error
import torch


def damp(wave: torch.Tensor) -> torch.Tensor:
    if wave.abs().amax() < 2.0:
        return wave * 1.0  # quiet enough
    gain = 2.0 / wave.abs().amax()
    return wave * gain


def mix(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    top = max(a.mean(), b.mean())
    fine = -1.0 < top < 1.0
    both = (a.amax() > 0) and (b.amax() > 0)
    scale = 0.5 if top > 0.1 else 1.0
    return a * scale + b * fine + both


if __name__ == "__main__":
    torch.manual_seed(0)
    a, b = torch.randn(8, device="cuda"), torch.randn(8, device="cuda")
    mix(damp(a), b)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = mix(damp(a), b)
        worst = 0.0
        for factor in (0.1, 5.0):
            a.mul_(factor)
            graph.replay()
            worst = max(worst, (out - mix(damp(a), b)).abs().max().item())
        print("OUTCOME:", "ok" if worst < 1e-5 else "wrong-result", f"off by {worst:.4f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
