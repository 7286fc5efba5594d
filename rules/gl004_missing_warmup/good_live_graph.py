# right: the warm-up runs on a side stream that is joined, and its loss is dropped
# outcome: ok
import torch
from torch import nn


def main():
    net = nn.Linear(6, 1).cuda()
    x, y = torch.randn(16, 6, device="cuda"), torch.randn(16, 1, device="cuda")

    def backward():
        loss = nn.functional.l1_loss(net(x), y)
        loss.backward()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            net.zero_grad(set_to_none=True)
            loss = backward()
    torch.cuda.current_stream().wait_stream(side)
    first = loss.item()
    del loss
    net.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_loss = backward()
    graph.replay()
    return abs(static_loss.item() - first) < 1e-5, f"loss {first:.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
