# fault: a compiled function is called for the first time inside the capture, so it is compiled there
# outcome: capture-error
import os

import torch

# What an earlier process compiled is loaded without touching the device: here it is compiled anew.
os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"


@torch.compile
def swish(x):
    return x * torch.sigmoid(1.5 * x)


def main():
    x = torch.randn(64, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):  # expect: missing-warmup
        y = swish(x)
    x.normal_()
    graph.replay()
    gap = (y - x * torch.sigmoid(1.5 * x)).abs().max().item()
    return gap < 1e-5, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except Exception as error:  # the compiler wraps the error in one of its own
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
