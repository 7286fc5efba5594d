# right: pageable data is copied before the replay, outside the graph
# outcome: ok
import torch

batch = torch.randn(8, 4)
static = torch.zeros(8, 4, device="cuda")
mean = torch.zeros(())


def step():
    return static.square().sum()


for _ in range(3):
    step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
static.copy_(batch, non_blocking=True)  # fine: outside the capture
graph.replay()
mean.copy_(batch.mean())  # fine: CPU to CPU
want = batch.square().sum().item()
print(f"OUTCOME: {'ok' if abs(loss.item() - want) < 1e-3 else 'wrong-result'} {loss.item():.3f} mean {mean.item():.3f}")
