# right: the learning rate is a CUDA tensor, which the scheduler fills in place
# outcome: ok
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3).cuda()
rate = torch.full((), 0.05, device="cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=rate, capturable=True)  # fine: a tensor rate is read by the kernel
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.0)
probe = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1, device="cuda"))], lr=0.1)  # fine: steps eagerly only
inputs = torch.randn(8, 6, device="cuda")


def train_step():
    optimizer.zero_grad(set_to_none=True)
    model(inputs).pow(2).mean().backward()
    optimizer.step()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        train_step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    train_step()

graph.replay()
schedule.step()
probe.param_groups[0]["lr"] = 0.01  # fine: no graph holds this optimizer
before = model.weight.detach().clone()
graph.replay()
moved = (model.weight - before).abs().max().item()
print(f"OUTCOME: {'ok' if moved == 0.0 else 'stale-result'} the rate is 0 now, weights moved by {moved:.4f}")
