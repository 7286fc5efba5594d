# fault: the mixing strength is a Python float that the caller sets between replays; the graph keeps the one of the capture
# outcome: stale-result
import torch
from torch import nn


class Blend(nn.Module):
    def __init__(self):
        super().__init__()
        self.strength = 0.5
        self.floor = 1e-6

    def forward(self, base, detail):
        mixed = base + detail * self.strength  # expect: stale-scalar
        return mixed.clamp_min(self.floor)


class Retoucher:
    def __init__(self, blend, size):
        self.blend = blend
        self.base = torch.zeros(size, device="cuda")
        self.detail = torch.zeros(size, device="cuda")
        for _ in range(3):
            blend(self.base, self.detail)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.image = blend(self.base, self.detail)

    def retouch(self, base, detail, strength):
        self.blend.strength = strength
        self.base.copy_(base)
        self.detail.copy_(detail)
        self.graph.replay()
        return self.image.clone()


if __name__ == "__main__":
    retoucher = Retoucher(Blend(), 8)
    ones = torch.ones(8, device="cuda")
    got = retoucher.retouch(ones, ones, strength=3.0)[0].item()
    print(f"OUTCOME: {'ok' if got == 4.0 else 'stale-result'} {got} (want 4.0)")
