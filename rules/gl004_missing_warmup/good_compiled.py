# right: one call before the capture compiles it
# outcome: ok
import torch


@torch.compile
def swish(x):
    return x * torch.sigmoid(1.5 * x)


def main():
    x = torch.randn(64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            swish(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
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
