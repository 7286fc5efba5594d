# fault: the warm-up fills autocast's weight cache, and the capture in the same block reads the cached casts instead of casting
# outcome: stale-result
import torch
from torch import nn

torch.manual_seed(0)
scorer = nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 3)).cuda()
clips = torch.randn(6, 24, device="cuda")
graph = torch.cuda.CUDAGraph()

with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):  # expect: autocast-cache
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            scorer(clips)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        scores = scorer(clips)

with torch.no_grad():
    for weight in scorer.parameters():
        weight.mul_(2.0)  # fine: in place, a graph that casts the live weights sees it
graph.replay()
with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
    gap = (scores - scorer(clips)).abs().max().item()
print("OUTCOME:", "ok" if gap < 0.05 else "stale-result", f"off by {gap:.3f} after the weights were doubled")
