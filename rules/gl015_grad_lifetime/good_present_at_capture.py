# right: gradients are set to None once, right before the capture, so that each replay overwrites them
# outcome: ok
import torch
from torch import nn


class GraphedLoss:
    def __init__(self, model, images):
        self.model, self.images = model, images
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.backward()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        for param in model.parameters():
            param.grad = None  # fine: before the capture, the graph's pool gets the gradients
        with torch.cuda.graph(self.graph):
            self.loss = self.backward()

    def backward(self):
        loss = self.model(self.images).square().mean()
        loss.backward()  # fine: .grad is None when this is captured
        return loss


if __name__ == "__main__":
    torch.manual_seed(0)
    model, images = nn.Linear(9, 3).cuda(), torch.randn(4, 9, device="cuda")
    step = GraphedLoss(model, images)
    step.graph.replay()
    first = model.weight.grad.clone()
    step.graph.replay()
    ratio = (model.weight.grad.norm() / first.norm()).item()
    print(f"OUTCOME: {'ok' if abs(ratio - 1) < 1e-3 else 'wrong-result'} the same batch again, gradient times {ratio:.2f}")
