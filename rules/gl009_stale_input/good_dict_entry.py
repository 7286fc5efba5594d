# right: every entry of the dictionary of static inputs is refreshed in place
# outcome: ok
import torch
from torch import nn


class Reranker(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, 1)

    def forward(self, docs, boost):
        return self.proj(docs).squeeze(-1) + boost


class RerankService:
    def __init__(self, model, docs, dim):
        self.model = model
        self.stats = {}
        self.buffers = {
            "docs": torch.zeros(docs, dim, device="cuda"),
            "boost": torch.zeros(docs, device="cuda"),
        }

    @torch.no_grad()
    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(**self.buffers)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.model(**self.buffers)

    def rank(self, **fresh):
        for name, value in fresh.items():
            self.buffers[name].copy_(value)
        self.stats["boost"] = fresh["boost"].mean()  # fine: a dictionary that no captured code reads
        self.graph.replay()
        return self.scores.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    service = RerankService(Reranker(8).cuda(), 5, 8)
    service.build()
    docs, boost = torch.randn(5, 8, device="cuda"), torch.randn(5, device="cuda")
    got = service.rank(docs=docs, boost=boost * 2.0)
    with torch.no_grad():
        gap = (got - service.model(docs, boost * 2.0)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'stale-result'} off by {gap:.3f}")
