# right: averaged weights are copied into the memory of the captured parameters
# outcome: ok
import torch
from torch import nn


def average(models):
    return [torch.stack([p.detach() for p in group]).mean(0) for group in zip(*(m.parameters() for m in models))]


@torch.no_grad()
def publish(model, weights):
    for param, value in zip(model.parameters(), weights):
        param.copy_(value)  # fine: in place, the replay sees it


def capture(model, features):
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        forecast = model(features)
    return graph, forecast


if __name__ == "__main__":
    torch.manual_seed(0)
    served, other = (nn.Sequential(nn.Linear(7, 7), nn.SiLU(), nn.Linear(7, 2)).cuda() for _ in range(2))
    other.requires_grad_(False)
    for param in other.parameters():
        param.data = param.data * 2.0  # fine: no graph was captured with this model
    features = torch.randn(3, 7, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            served(features)
    graph, forecast = capture(served, features)
    publish(served, average([served, other]))
    graph.replay()
    with torch.no_grad():
        gap = (forecast - served(features)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'stale-result'} off by {gap:.3f}")
