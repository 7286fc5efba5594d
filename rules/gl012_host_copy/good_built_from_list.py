# right: constants are buffers made before the capture; in the capture only factories with host numbers are used
# outcome: ok
import torch
from torch import nn


class Luma(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.tensor([0.299, 0.587, 0.114]))  # fine: moved once, by .cuda()

    def forward(self, rgb):
        offset = torch.full((), 0.5, device=rgb.device)  # fine: a fill, the number is a kernel argument
        ramp = torch.arange(rgb.shape[0], device=rgb.device)  # fine: no host data
        zero = rgb.new_zeros(rgb.shape[0])  # fine
        return (rgb * self.weights).sum(-1) - offset + ramp * 0 + zero


def measure(luma, rgb):
    for _ in range(3):
        luma(rgb)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gray = luma(rgb)
    rgb.copy_(torch.tensor([[1.0, 1.0, 1.0]]).cuda())  # fine: after the capture
    graph.replay()
    return gray.mean().item()


if __name__ == "__main__":
    got = measure(Luma().cuda(), torch.rand(4, 3, device="cuda"))
    print(f"OUTCOME: {'ok' if abs(got - 0.5) < 1e-4 else 'wrong-result'} {got:.3f}")
