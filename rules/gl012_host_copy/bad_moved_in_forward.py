# fault: a table is computed on the CPU and moved to the GPU in every forward
# outcome: capture-error
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, x):
        angle = torch.arange(x.shape[0], dtype=torch.float32)
        table = torch.outer(angle, torch.arange(self.dim) / self.dim)
        return x + table.sin().cuda()  # expect: host-copy


class Encoder:
    def __init__(self, positions, x):
        self.positions, self.x = positions, x

    def capture(self):
        for _ in range(3):
            self.positions(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.positions(self.x)


if __name__ == "__main__":
    encoder = Encoder(Positions(6), torch.zeros(4, 6, device="cuda"))
    try:
        encoder.capture()
        encoder.graph.replay()
        print("OUTCOME: ok", encoder.y.sum().item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
