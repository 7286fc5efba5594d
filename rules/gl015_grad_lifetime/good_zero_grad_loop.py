# right: nothing clears gradients between replays, or they are zeroed in place
# outcome: ok
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1)).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(32, 6, device="cuda")
y = torch.randn(32, 1, device="cuda")


def forward_backward():
    loss = nn.functional.smooth_l1_loss(net(x), y)
    loss.backward()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        forward_backward()
torch.cuda.current_stream().wait_stream(side)
opt.zero_grad()  # fine: once, before the capture
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = forward_backward()

weights = []
for epoch in range(4):
    graph.replay()
    opt.step()
    opt.zero_grad(set_to_none=False)  # fine: in place, the memory stays; the replay overwrites it anyway
    weights.append(net[0].weight.detach().clone())
moved = [(b - a).abs().max().item() > 0 for a, b in zip(weights, weights[1:])]
print(f"OUTCOME: {'ok' if all(moved) else 'wrong-result'} weights moved: {moved}, loss {loss.item():.3f}")
