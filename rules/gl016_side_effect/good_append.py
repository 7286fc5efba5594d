# right: the history is kept by the code that replays; lists that live inside one captured call are fine
# outcome: ok
import logging

import torch
from torch import nn

torch.manual_seed(0)
log = logging.getLogger("demo")
history = []
net = nn.Linear(4, 1).cuda()
x = torch.randn(8, 4, device="cuda")


def evaluate():
    parts = []
    for row in x.split(4):
        parts.append(net(row).square().mean())  # fine: a local list, consumed in the capture
    log.debug("captured with %d parts", len(parts))  # fine: logging at capture time
    return torch.stack(parts).mean()


with torch.no_grad():
    for _ in range(3):
        evaluate()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = evaluate()

for _ in range(5):
    x.normal_()
    graph.replay()
    history.append(loss.clone())  # fine: outside the capture, a copy
last = history[-1].item()
print(f"OUTCOME: {'ok' if len(history) == 5 and last == loss.item() else 'wrong-result'} {len(history)} losses, last {last:.3f}")
