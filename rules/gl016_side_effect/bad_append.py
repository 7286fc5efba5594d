# fault: the captured step appends its loss to a list that is read as the history of all steps
# outcome: wrong-result
import torch
from torch import nn

torch.manual_seed(0)
history = []
net = nn.Linear(4, 1).cuda()
x = torch.randn(8, 4, device="cuda")


def evaluate():
    loss = net(x).square().mean()
    history.append(loss.detach())  # expect: side-effect
    return loss


with torch.no_grad():
    for _ in range(3):
        evaluate()
    torch.cuda.synchronize()
    history.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = evaluate()

for _ in range(5):
    x.normal_()
    graph.replay()
print(f"OUTCOME: {'ok' if len(history) == 5 else 'wrong-result'} {len(history)} losses after 5 replays, last {loss.item():.3f}")
