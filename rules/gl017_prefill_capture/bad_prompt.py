# fault: prompts of any length are padded into one captured prompt pass, and nothing keeps the padding out of the attention
# outcome: wrong-result
import torch
import torch.nn.functional as F
from torch import nn


class PromptEncoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)

    def forward(self, hidden):
        key, value = self.kv(hidden).chunk(2, -1)
        return F.scaled_dot_product_attention(self.query(hidden), key, value)[:, 0]


class PromptGraph:
    def __init__(self, encoder, limit, dim):
        self.encoder = encoder
        self.hidden = torch.zeros(1, limit, dim, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                encoder(self.hidden)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):  # expect: prefill-capture
                self.summary = encoder(self.hidden)

    def encode(self, hidden):
        length = hidden.shape[1]
        self.hidden.zero_()
        self.hidden[:, :length].copy_(hidden)
        self.graph.replay()
        return self.summary.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    encoder = PromptEncoder(8).cuda()
    graph = PromptGraph(encoder, 12, 8)
    hidden = torch.randn(1, 5, 8, device="cuda")
    got = graph.encode(hidden)
    with torch.no_grad():
        gap = (got - encoder(hidden)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'wrong-result'} off by {gap:.3f}")
