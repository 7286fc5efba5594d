# right: the whole differentiated computation runs in the capture; what comes from outside is detached
# outcome: ok
import torch
from torch import nn

torch.manual_seed(0)
scale = nn.Parameter(torch.ones(4, device="cuda"))
layer = nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
spread = (scale * 2.0).detach()  # fine: no backward goes through it


def loss_of(factor):
    return (layer(x) * factor / spread).square().mean()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        loss_of(scale.exp()).backward()
torch.cuda.current_stream().wait_stream(side)
layer.zero_grad(set_to_none=True)
scale.grad = None

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = loss_of(scale.exp())
    loss.backward()
graph.replay()
got = scale.grad.clone()
want = torch.autograd.grad(loss_of(scale.exp()), scale)[0]
print(f"OUTCOME: {'ok' if torch.allclose(got, want, atol=1e-4) else 'wrong-result'} {got.sum().item():.4f}")
