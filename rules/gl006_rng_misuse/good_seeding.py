# right: seeding happens between replays, where it works
# outcome: ok
import torch
from torch import nn


class NoisyLinear(nn.Module):
    def __init__(self, width, seed):
        super().__init__()
        self.lin = nn.Linear(width, width)
        self.seed = seed

    def forward(self, x):
        return self.lin(x) + torch.randn_like(x)


def main():
    model = NoisyLinear(8, seed=123).cuda().requires_grad_(False)
    x = torch.randn(4, 8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        model(x)
    torch.cuda.current_stream().wait_stream(side)
    model.seed = 124
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = model(x)
    torch.manual_seed(5)  # fine: between replays
    graph.replay()
    first = y.clone()
    torch.manual_seed(5)
    graph.replay()
    again = y.clone()
    graph.replay()
    return torch.equal(first, again) and not torch.equal(again, y), "same seed, same noise"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
