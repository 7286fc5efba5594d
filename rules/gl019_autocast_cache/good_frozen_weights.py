# right: autocast caches only leaves that require grad; frozen weights are cast anew, so a shared block does no harm
# outcome: ok
import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(16, 16).cuda().requires_grad_(False)
frames = torch.randn(4, 16, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.autocast("cuda", dtype=torch.bfloat16):  # fine: the weights do not require grad and are never cached
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            encoder(frames)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        codes = encoder(frames)

encoder.weight.mul_(2.0)
graph.replay()
with torch.autocast("cuda", dtype=torch.bfloat16):
    gap = (codes - encoder(frames)).abs().max().item()
print("OUTCOME:", "ok" if gap < 0.05 else "stale-result", f"off by {gap:.3f}")
