# fault: the loss keeps only the labelled positions with masked_select
# outcome: capture-error
import torch
from torch import nn


class DepthLoss(nn.Module):
    def forward(self, guess, depth):
        error = (guess - depth).abs()
        return torch.masked_select(error, depth > 0).mean()  # expect: dynamic-shape-op


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
    try:
        trainer.build()
        trainer.graph.replay()
        print("OUTCOME: ok", trainer.value.item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
