# right: index tensors live on the GPU; slices and integers need no copy
# outcome: ok
import torch

torch.manual_seed(0)
ORDER = torch.tensor([2, 0, 1], device="cuda")
channels = torch.randn(3, 5, device="cuda")
names = ["r", "g", "b"]


def shuffle(x):
    y = x[ORDER]  # fine: a CUDA index
    z = torch.stack([x[:, 0], x[:, 4]], 1)  # fine: integers select views
    w = x[1:3, ::2]  # fine: a view
    first = names[0]  # fine: a list of strings is indexed, not a tensor
    return y.sum() + z.sum() + w.sum() * len(first)


for _ in range(3):
    shuffle(channels)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    total = shuffle(channels)
channels.fill_(1.0)
graph.replay()
got, want = total.item(), shuffle(channels).item()
print(f"OUTCOME: {'ok' if got == want else 'wrong-result'} {got} {want}")
