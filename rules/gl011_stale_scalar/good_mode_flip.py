# right: the mode is set before the capture and stays
# outcome: ok
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
judge = Tagger(16, 4).cuda()
words = torch.ones(3, 16, device="cuda")
tagger.eval()  # fine: before the capture
for _ in range(3):
    tagger(words)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    tags = tagger(words)

judge.eval()  # fine: another model, which no graph holds
graph.replay()
first = tags.clone()
with torch.no_grad():  # fine: the capture needed no gradients either
    graph.replay()
gap = (tags - first).abs().max().item()
print(f"OUTCOME: {'ok' if gap == 0.0 else 'wrong-result'} two evaluations differ by {gap:.3f}")
