# right: without lr_decay the count is not used
# outcome: ok
import torch


def descend(graphed):
    """The weight after six steps against a constant gradient."""
    weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = torch.optim.Adagrad([weight], lr=0.1)
    weight.grad = torch.full_like(weight, 2.0)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    if not graphed:
        for _ in range(4):
            optimizer.step()
        return weight.detach()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()
    for _ in range(4):
        graph.replay()
    return weight.detach()


def main():
    got, want = descend(True)[0].item(), descend(False)[0].item()
    return abs(got - want) < 1e-5, f"{got:.5f} is {want:.5f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
