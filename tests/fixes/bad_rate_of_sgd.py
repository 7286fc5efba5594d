# fault: the rate of a captured SGD is a float, which two functions change between replays
# outcome: stale-result
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4).cuda()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(2, 4, device="cuda")


def step() -> None:
    net(x).square().mean().backward()
    opt.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        step()
torch.cuda.current_stream().wait_stream(side)
opt.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()


def slower() -> None:
    for group in opt.param_groups:
        group["lr"] = group["lr"] * 0.5  # each epoch


def stop() -> None:
    for group in opt.param_groups:
        group["lr"] = 0.0


for _ in range(3):
    graph.replay()
    slower()
stop()
before = net.weight.detach().clone()
graph.replay()
moved = (net.weight - before).abs().max().item()
print("OUTCOME:", "ok" if moved == 0 else "stale-result", f"moved by {moved:.4f} at rate 0")
