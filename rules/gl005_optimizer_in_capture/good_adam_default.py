# right: capturable=True keeps the count on the GPU
# outcome: ok
import torch
from torch import nn


def main():
    net = nn.Linear(5, 1).cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02, capturable=True)
    x, y = torch.randn(32, 5, device="cuda"), torch.randn(32, 1, device="cuda")

    def iteration():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            iteration()
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = iteration()
    graph.replay()
    first = loss.item()
    for _ in range(30):
        graph.replay()
    return loss.item() < first, f"{first:.4f} -> {loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
