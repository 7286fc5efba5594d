# right: the whole iteration, step included, is warmed up
# outcome: ok
import torch
from torch import nn


def run(graphed):
    """The weights after four steps; `graphed` decides how the steps are run."""
    torch.manual_seed(0)
    net = nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    x, y = torch.randn(8, 4, device="cuda"), torch.randn(8, 1, device="cuda")

    def backward():
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(net(x), y).backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        backward()
        optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    steps = 3
    if not graphed:
        for _ in range(steps):
            backward()
            optimizer.step()
        return net.weight.detach().clone()
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        backward()
        optimizer.step()
    for _ in range(steps):
        graph.replay()
    return net.weight.detach().clone()


def main():
    gap = (run(True) - run(False)).abs().max().item()
    return gap < 1e-5, f"weights off by {gap:.5f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
