# fault: sequences of any length are padded into the captured buffer, and the mean over the positions counts the padding
# outcome: wrong-result
import torch
from torch import nn

LIMIT = 10
torch.manual_seed(0)
embed = nn.Linear(4, 6).cuda().requires_grad_(False)
sequence = torch.zeros(LIMIT, 4, device="cuda")


def forward():
    return embed(sequence).mean(0)


for _ in range(3):
    forward()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):  # expect: prefill-capture
    vector = forward()


def encode(seq):
    seq_len = seq.shape[0]
    sequence[:seq_len].copy_(seq)
    sequence[seq_len:].zero_()
    graph.replay()
    return vector.clone()


worst = 0.0
for seq_len in (3, 7):
    seq = torch.randn(seq_len, 4, device="cuda")
    worst = max(worst, (encode(seq) - embed(seq).mean(0)).abs().max().item())
print(f"OUTCOME: {'ok' if worst < 1e-4 else 'wrong-result'} off by {worst:.3f}")
