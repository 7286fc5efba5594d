# fault: the whole training step is captured with a float learning rate, so the schedule changes a number nobody reads
# outcome: stale-result
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 3).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, capturable=True)  # expect: stale-scalar
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.0)
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
before = model.weight.detach().clone()
graph.replay()
moved = (model.weight - before).abs().max().item()
print(f"OUTCOME: {'ok' if moved == 0.0 else 'stale-result'} the rate is 0 now, weights moved by {moved:.4f}")
