# fault: averaged weights are put into the parameters with `.data =`, which gives them other memory than the captured one
# outcome: stale-result
import torch
from torch import nn


def average(models):
    return [torch.stack([p.detach() for p in group]).mean(0) for group in zip(*(m.parameters() for m in models))]


def publish(model, weights):
    for param, value in zip(model.parameters(), weights):
        param.data = value  # expect: stale-input


def capture(model, features):
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        forecast = model(features)
    return graph, forecast


if __name__ == "__main__":
    torch.manual_seed(0)
    served, other = (nn.Sequential(nn.Linear(7, 7), nn.SiLU(), nn.Linear(7, 2)).cuda() for _ in range(2))
    features = torch.randn(3, 7, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            served(features)
    graph, forecast = capture(served, features)
    kept = [p.data for p in served.parameters()]
    publish(served, average([served, other]))
    graph.replay()
    with torch.no_grad():
        gap = (forecast - served(features)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'stale-result'} off by {gap:.3f}, {len(kept)} old tensors alive")
