# fault: the module is cast after the capture; .bfloat16() gives every parameter new memory, the graph keeps the float32 weights
# outcome: stale-result
import torch
from torch import nn


class Embedder:
    def __init__(self, tower, ids):
        self.tower = tower
        self.ids = ids.clone()
        for _ in range(3):
            self.embed(self.ids)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.vectors = self.embed(self.ids)

    @torch.no_grad()
    def embed(self, ids):
        return self.tower(ids)

    def save_memory(self):
        self.tower.bfloat16()  # expect: stale-input

    def __call__(self, ids):
        self.ids.copy_(ids)
        self.graph.replay()
        return self.vectors.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    ids = torch.arange(6, device="cuda")
    embedder = Embedder(nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 8)).cuda(), ids)
    embedder.save_memory()
    got, want = embedder(ids), embedder.embed(ids)
    same = got.dtype == want.dtype and torch.equal(got, want)
    print(f"OUTCOME: {'ok' if same else 'stale-result'} replay gives {got.dtype}, eager {want.dtype}")
