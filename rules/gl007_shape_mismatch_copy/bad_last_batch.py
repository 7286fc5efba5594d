# fault: the loader gives a last batch of one row, which fits into the static input by broadcasting
# outcome: wrong-result
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 4


def score_all(net, data):
    """The sum of the scores of all rows."""
    static = torch.zeros(BATCH, data.shape[1], device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            net(static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        score = net(static).sum()
    total = 0.0
    loader = DataLoader(TensorDataset(data), batch_size=BATCH)
    for (rows,) in loader:
        static.copy_(rows)  # expect: shape-mismatch-copy
        graph.replay()
        total += score.item()
    return total


def main():
    net = nn.Linear(6, 1).cuda().requires_grad_(False)
    data = torch.randn(9, 6)
    gap = abs(score_all(net, data) - net(data.cuda()).sum().item())
    return gap < 1e-3, f"off by {gap:.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
