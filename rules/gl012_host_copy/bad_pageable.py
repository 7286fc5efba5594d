# fault: the captured step fetches its batch from pageable memory; non_blocking does not help
# outcome: capture-error
import torch

batch = torch.randn(8, 4)
static = torch.zeros(8, 4, device="cuda")


def step():
    static.copy_(batch, non_blocking=True)  # expect: host-copy
    return static.square().sum()


for _ in range(3):
    step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        loss = step()
    graph.replay()
    print("OUTCOME: ok", loss.item())
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
