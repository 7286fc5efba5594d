# fault: a small CUDA tensor is built from Python numbers inside the captured forward, which is a copy from pageable memory
# outcome: capture-error
import torch
from torch import nn


class Luma(nn.Module):
    def forward(self, rgb):
        weights = torch.tensor([0.299, 0.587, 0.114], device=rgb.device)  # expect: host-copy
        offset = rgb.new_tensor(0.5)  # expect: host-copy
        return (rgb * weights).sum(-1) - offset


def measure(luma, rgb):
    for _ in range(3):
        luma(rgb)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gray = luma(rgb)
    graph.replay()
    return gray.mean().item()


if __name__ == "__main__":
    try:
        print(f"OUTCOME: ok {measure(Luma().cuda(), torch.rand(4, 3, device='cuda')):.3f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
