# right: autocast surrounds warm-up and capture; the replay needs none
# outcome: ok
import torch
from torch import nn


class Segmenter:
    def __init__(self, net, tile):
        self.net, self.tile = net, tile.clone()
        with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            for _ in range(3):
                net(self.tile)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.mask = net(self.tile)

    @torch.no_grad()
    def segment(self, tile):
        self.tile.copy_(tile)
        self.graph.replay()
        with torch.autocast("cuda", dtype=torch.bfloat16):  # fine: eager work after the replay
            return self.mask @ self.mask.T


if __name__ == "__main__":
    torch.manual_seed(0)
    tile = torch.randn(4, 12, device="cuda")
    segmenter = Segmenter(nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2)).cuda(), tile)
    got = segmenter.segment(tile)
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        mask = segmenter.net(tile)
        want = mask @ mask.T
    same = got.dtype == want.dtype and torch.allclose(got.float(), want.float(), atol=0.05)
    print(f"OUTCOME: {'ok' if same else 'wrong-result'} {got.dtype}, eager {want.dtype}")
