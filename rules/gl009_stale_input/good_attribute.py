# right: each frame is copied into the tensor that the graph reads
# outcome: ok
import torch
from torch import nn


class EdgeDetector:
    def __init__(self, conv, height, width):
        self.conv = conv.requires_grad_(False)
        self.last = None
        self.frame = torch.ones(1, 3, height, width, device="cuda")
        self.frame = torch.zeros(1, 3, height, width, device="cuda")  # fine: bound again before the capture
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.conv(self.frame)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.edges = self.conv(self.frame)  # fine: the static output is made in the capture

    def detect(self, frame):
        self.last = frame  # fine: the graph never reads this attribute
        self.frame.copy_(frame)
        self.graph.replay()
        return self.edges.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    detector = EdgeDetector(nn.Conv2d(3, 2, 3).cuda(), 8, 8)
    frame = torch.randn(1, 8, 8, 3, device="cuda").permute(0, 3, 1, 2)
    got = detector.detect(frame)
    gap = (got - detector.conv(detector.last)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'stale-result'} off by {gap:.3f}")
