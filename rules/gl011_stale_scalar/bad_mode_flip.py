# fault: the graph was captured in training mode; eval() around the replay changes a flag that only Python reads
# outcome: wrong-result
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, dim, tags):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.out = nn.Linear(dim, tags)

    def forward(self, words):
        return self.out(self.drop(words))


torch.manual_seed(0)
tagger = Tagger(16, 4).cuda().requires_grad_(False)
words = torch.ones(3, 16, device="cuda")
for _ in range(3):
    tagger(words)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    tags = tagger(words)

tagger.eval()  # expect: stale-scalar
graph.replay()
first = tags.clone()
graph.replay()
gap = (tags - first).abs().max().item()
print(f"OUTCOME: {'ok' if gap == 0.0 else 'wrong-result'} two evaluations differ by {gap:.3f}")
