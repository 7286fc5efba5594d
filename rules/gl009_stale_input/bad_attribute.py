# fault: each frame is bound to the attribute that the graph was captured with instead of being copied into it
# outcome: stale-result
import torch
from torch import nn


class EdgeDetector:
    def __init__(self, conv, height, width):
        self.conv = conv.requires_grad_(False)
        self.frame = torch.zeros(1, 3, height, width, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.conv(self.frame)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.edges = self.conv(self.frame)

    def detect(self, frame):
        self.frame = frame.contiguous()  # expect: stale-input
        self.graph.replay()
        return self.edges.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    detector = EdgeDetector(nn.Conv2d(3, 2, 3).cuda(), 8, 8)
    frame = torch.randn(1, 8, 8, 3, device="cuda").permute(0, 3, 1, 2)
    got = detector.detect(frame)
    gap = (got - detector.conv(frame)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'stale-result'} off by {gap:.3f}")
