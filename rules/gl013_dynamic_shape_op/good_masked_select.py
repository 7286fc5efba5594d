# right: unlabelled positions are weighted with zero, and the mean divides by the number of labels on the device
# outcome: ok
import torch
from torch import nn


class DepthLoss(nn.Module):
    def forward(self, guess, depth):
        known = depth > 0
        error = (guess - depth).abs().masked_fill(~known, 0.0)  # fine: keeps the shape
        return error.sum() / known.sum().clamp_min(1)


class Trainer:
    def __init__(self, net, pixels, depth):
        self.net, self.loss = net, DepthLoss()
        self.pixels, self.depth = pixels, depth

    def forward_backward(self):
        loss = self.loss(self.net(self.pixels), self.depth)
        loss.backward()
        return loss

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.forward_backward()
        torch.cuda.current_stream().wait_stream(side)
        self.net.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.value = self.forward_backward()


if __name__ == "__main__":
    trainer = Trainer(nn.Linear(4, 1).cuda(), torch.randn(9, 4, device="cuda"), torch.ones(9, 1, device="cuda"))
    trainer.build()
    trainer.depth[:3] = 0.0
    trainer.graph.replay()
    with torch.no_grad():
        error = (trainer.net(trainer.pixels) - trainer.depth).abs()
        want = error[trainer.depth > 0].mean().item()  # fine: eager
    got = trainer.value.item()
    print(f"OUTCOME: {'ok' if abs(got - want) < 1e-4 else 'wrong-result'} {got:.4f}")
