# fault: the largest by a key is a comparison of tensors
# outcome: capture-error
import torch


def pick(views):
    return max(views, key=lambda view: view.std())  # expect: tensor-control-flow


def main():
    base = torch.randn(16, device="cuda")
    views = [base, base * 3, base * 2]
    pick(views)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = pick(views)
    graph.replay()
    gap = (chosen - base * 3).abs().max().item()
    return gap < 1e-5, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
