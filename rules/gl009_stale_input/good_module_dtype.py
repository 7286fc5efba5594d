# right: the module is cast before the capture
# outcome: ok
import torch
from torch import nn


class Embedder:
    def __init__(self, tower, ids):
        self.tower = tower.bfloat16()  # fine: before the capture
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

    def __call__(self, ids):
        self.ids.copy_(ids)
        self.graph.replay()
        return self.vectors.float()  # fine: a new tensor made from the output, after the replay


if __name__ == "__main__":
    torch.manual_seed(0)
    ids = torch.arange(6, device="cuda")
    embedder = Embedder(nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 8)).cuda(), ids)
    got, want = embedder(ids), embedder.embed(ids).float()
    print(f"OUTCOME: {'ok' if torch.equal(got, want) else 'stale-result'} {got.dtype}")
