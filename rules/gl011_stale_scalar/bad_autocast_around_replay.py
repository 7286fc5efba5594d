# fault: autocast is entered around the replay only; the kernels were recorded in float32 and stay so
# outcome: wrong-result
import torch
from torch import nn


class Segmenter:
    def __init__(self, net, tile):
        self.net, self.tile = net, tile.clone()
        with torch.no_grad():
            for _ in range(3):
                net(self.tile)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.mask = net(self.tile)

    @torch.no_grad()
    def segment(self, tile):
        self.tile.copy_(tile)
        with torch.autocast("cuda", dtype=torch.bfloat16):  # expect: stale-scalar
            self.graph.replay()
        return self.mask.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    tile = torch.randn(4, 12, device="cuda")
    segmenter = Segmenter(nn.Sequential(nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 2)).cuda(), tile)
    got = segmenter.segment(tile)
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        want = segmenter.net(tile)
    print(f"OUTCOME: {'ok' if got.dtype == want.dtype else 'wrong-result'} {got.dtype}, eager {want.dtype}")
