# right: torch.maximum, Tensor.any, & and masks
# outcome: ok
import torch


def blend(a, b, weights):
    """Mixes two signals by their loudness."""
    loud_a, loud_b = a.abs().mean(), b.abs().mean()
    top = torch.maximum(loud_a, loud_b)
    kept = [torch.where(w > 0.1, w, 0.0) for w in weights]
    quiet = (0.0 < top) & (top < 1.0)
    both = (loud_a > 0) & (loud_b > 0)
    total = sum(kept)  # fine: sum only adds
    rows = [row * 2.0 for row in a]  # fine: iterating over dim 0 needs no value
    return torch.stack(rows) * total + b / top + quiet + both


def main():
    a, b = torch.rand(4, 8, device="cuda"), torch.rand(4, 8, device="cuda")
    weights = torch.rand(3, device="cuda").add_(0.2)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            blend(a, b, weights)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = blend(a, b, weights)
    a.uniform_()
    graph.replay()
    return torch.allclose(out, blend(a, b, weights), atol=1e-5), f"{out.sum().item():.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
