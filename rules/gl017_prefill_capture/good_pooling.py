# right: weights of the real positions are refreshed with each sequence, so the padding does not count
# outcome: ok
import torch
from torch import nn

LIMIT = 10
torch.manual_seed(0)
embed = nn.Linear(4, 6).cuda().requires_grad_(False)
sequence = torch.zeros(LIMIT, 4, device="cuda")
weights = torch.zeros(LIMIT, 1, device="cuda")


def forward():
    return (embed(sequence) * weights).sum(0) / weights.sum()


for _ in range(3):
    forward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):  # fine: the weights keep the padding out
    vector = forward()


def encode(seq):
    seq_len = seq.shape[0]
    sequence[:seq_len].copy_(seq)
    sequence[seq_len:].zero_()
    weights[:seq_len] = 1.0
    weights[seq_len:] = 0.0
    graph.replay()
    return vector.clone()


worst = 0.0
for seq_len in (3, 7):
    seq = torch.randn(seq_len, 4, device="cuda")
    worst = max(worst, (encode(seq) - embed(seq).mean(0)).abs().max().item())
print(f"OUTCOME: {'ok' if worst < 1e-4 else 'wrong-result'} off by {worst:.3f}")
