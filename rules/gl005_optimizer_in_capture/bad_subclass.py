# fault: an optimizer of the project's own passes its options on to RMSprop, without `capturable`
# outcome: capture-error
import torch
from torch import nn


class Gentle(torch.optim.RMSprop):
    def __init__(self, params, **options):
        super().__init__(params, lr=1e-3, **options)
        self.told = []


def iteration(net, optimizer, x):
    optimizer.zero_grad(set_to_none=True)
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()  # expect: optimizer-in-capture
    return loss


def main():
    net = nn.Linear(5, 1).cuda()
    optimizer = Gentle(net.parameters(), alpha=0.9)
    x = torch.randn(32, 5, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            iteration(net, optimizer, x)
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = iteration(net, optimizer, x)
    graph.replay()
    first = loss.item()
    for _ in range(20):
        graph.replay()
    return loss.item() < first, f"{first:.4f} to {loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
