# fault: the forward of a shared factor runs eagerly on the default stream, while its backward is captured
# outcome: capture-error
import torch
from torch import nn

torch.manual_seed(0)
scale = nn.Parameter(torch.ones(4, device="cuda"))
layer = nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")


def loss_of(factor):
    return (layer(x) * factor).square().mean()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        loss_of(scale.exp()).backward()
torch.cuda.current_stream().wait_stream(side)
layer.zero_grad(set_to_none=True)
scale.grad = None

factor = scale.exp()  # expect: stream-escape
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        loss = loss_of(factor)
        loss.backward()
    graph.replay()
    print("OUTCOME: ok", loss.item())
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
