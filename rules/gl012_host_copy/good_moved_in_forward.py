# right: the table is a buffer, moved with the module before the capture
# outcome: ok
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, length, dim):
        super().__init__()
        table = torch.outer(torch.arange(length, dtype=torch.float32), torch.arange(dim) / dim)
        self.register_buffer("table", table.sin())

    def forward(self, x):
        table = self.table[: x.shape[0]].to(x.device)  # fine: it is there already, nothing is copied
        scale = x.float().cuda()  # fine: a CUDA tensor stays where it is
        return scale + table


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

    def run(self, host):
        self.x.copy_(host.to("cuda"))  # fine: eager, before the replay
        self.graph.replay()
        return self.y.clone()


if __name__ == "__main__":
    encoder = Encoder(Positions(8, 6).cuda(), torch.zeros(4, 6, device="cuda"))
    encoder.capture()
    got = encoder.run(torch.ones(4, 6))
    want = encoder.positions(torch.ones(4, 6, device="cuda"))
    print(f"OUTCOME: {'ok' if torch.equal(got, want) else 'wrong-result'} {got.sum().item():.3f}")
