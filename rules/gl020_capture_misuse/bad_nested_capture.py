# fault: a lazily graphed helper captures on its first call, and that call lies inside another capture
# outcome: capture-error
import torch

calls: dict[str, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
angles = torch.linspace(0, 3, 16, device="cuda")


def rotate() -> torch.Tensor:
    return torch.sin(angles) * torch.cos(angles)


def graphed_rotate() -> torch.Tensor:
    if "rotate" not in calls:
        inner = torch.cuda.CUDAGraph()
        with torch.cuda.graph(inner):  # expect: capture-misuse
            turned = rotate()
        calls["rotate"] = (inner, turned)
    return calls["rotate"][1]


def main() -> str:
    rotate()
    torch.cuda.synchronize()
    outer = torch.cuda.CUDAGraph()
    with torch.cuda.graph(outer):
        total = graphed_rotate().abs() + 1
    calls["rotate"][0].replay()
    outer.replay()
    gap = (total - (rotate().abs() + 1)).abs().max().item()
    return f"{'ok' if gap < 1e-5 else 'wrong-result'} off by {gap:.6f}"


if __name__ == "__main__":
    try:
        print("OUTCOME:", main())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
