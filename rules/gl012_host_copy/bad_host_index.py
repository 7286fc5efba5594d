# fault: CUDA tensors are indexed with Python lists and with a CPU tensor, whose contents must be copied to the GPU first
# outcome: capture-error
import torch

torch.manual_seed(0)
ORDER = [2, 0, 1]
channels = torch.randn(3, 5, device="cuda")
perm = torch.tensor([1, 2, 0])


def shuffle(x):
    y = x[ORDER]  # expect: host-copy
    z = x[:, [0, 4]]  # expect: host-copy
    return y.sum() + z.sum() + x[perm].sum()  # expect: host-copy


for _ in range(3):
    shuffle(channels)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        total = shuffle(channels)
    print("OUTCOME: ok captured")
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
