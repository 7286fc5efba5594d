# fault: the idle hook drops the codebook to give memory back, while a graph that reads it is kept and replayed
# outcome: wrong-result
import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.codebook = torch.ones(rows, dim, device="cuda")

    def forward(self, codes):
        return self.codebook[codes]


class Vocoder:
    def __init__(self, rows, dim):
        self.quantizer = Quantizer(rows, dim)
        self.codes = torch.zeros(4, dtype=torch.long, device="cuda")
        for _ in range(3):
            self.quantizer(self.codes)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.frames = self.quantizer(self.codes)

    def idle(self):
        self.quantizer.codebook = None  # expect: dangling-input

    def decode(self, codes):
        self.codes.copy_(codes)
        self.graph.replay()
        return self.frames.clone()


if __name__ == "__main__":
    vocoder = Vocoder(1 << 16, 64)
    codes = torch.arange(4, device="cuda")
    want = vocoder.decode(codes)
    vocoder.idle()
    other_job = [torch.full((1 << 16, 64), 8.0, device="cuda") for _ in range(3)]
    same = torch.equal(vocoder.decode(codes), want)
    print(f"OUTCOME: {'ok' if same else 'wrong-result'} {len(other_job)} tensors of another job")
