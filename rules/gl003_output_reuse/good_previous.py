# right: the previous output is copied into memory of its own
# outcome: ok
import torch
from torch import nn


class MotionDetector:
    def __init__(self, net, width):
        self.net = net
        self.frame = torch.zeros(width, device="cuda")
        self.previous = torch.zeros(3, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net(self.frame)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.features = self.net(self.frame)  # fine: the static output

    def change(self, frame):
        self.frame.copy_(frame)
        self.graph.replay()
        moved = (self.features - self.previous).abs().sum().item()
        self.previous.copy_(self.features)
        return moved


def main():
    net = nn.Linear(8, 3).cuda().requires_grad_(False)
    detector = MotionDetector(net, 8)
    frames = torch.randn(3, 8, device="cuda")
    got = [detector.change(frame) for frame in frames]  # fine: floats
    features = net(frames)
    want = (features[1:] - features[:-1]).abs().sum(-1).tolist()
    return all(abs(a - b) < 1e-4 for a, b in zip(got[1:], want)), f"{got[1]:.4f} is {want[0]:.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
