# fault: two outputs of one graphed callable are kept; both are the same memory
# outcome: wrong-result
import torch
from torch import nn


def score_views(net, views):
    scores = [net(view) for view in views]  # expect: output-reuse
    return torch.stack(scores).mean(0)


def main():
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 2)).cuda().requires_grad_(False)
    views = [torch.randn(4, 8, device="cuda") for _ in range(3)]
    want = torch.stack([net(view) for view in views]).mean(0)  # fine: not graphed yet
    graphed = torch.cuda.make_graphed_callables(net, (torch.randn(4, 8, device="cuda"),))
    got = score_views(graphed, views)
    gap = (got - want).abs().max().item()
    return gap < 1e-4, f"off by {gap:.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
