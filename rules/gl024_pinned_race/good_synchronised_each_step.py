# right: the result is read back in every step, and that read waits for the copy as well
# outcome: ok
import torch

limits = torch.zeros(4, pin_memory=True)
bounds = torch.zeros(4, device="cuda")
values = torch.linspace(-2, 2, 4, device="cuda")


def clip() -> torch.Tensor:
    bounds.copy_(limits, non_blocking=True)
    return values.clamp(max=bounds)


clip()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    clipped = clip()

tops = []
for limit in (0.5, 1.0, 1.5):
    limits.fill_(limit)  # fine: .item() at the end of each step waited for the replay
    graph.replay()
    tops.append(clipped.max().item())
print("OUTCOME:", "ok" if tops == [0.5, 1.0, 1.5] else "wrong-result", tops)
