"""A whole training step in one graph. Two faults make no error: the loss curve just looks wrong."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model: nn.Module, batch: int, width: int) -> None:
        self.model = model
        self.x = torch.zeros(batch, width, device="cuda")
        self.y = torch.zeros(batch, 1, device="cuda")
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def objective(self) -> torch.Tensor:
        loss = nn.functional.mse_loss(self.model(self.x), self.y)
        loss.backward()
        return loss

    def capture(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x.copy_(x)
        self.y.copy_(y)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.optimizer.zero_grad(set_to_none=True)
                self.objective()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.objective()

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.x = x  # expect: stale-input
        self.y.copy_(y)
        self.graph.replay()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)  # expect: grad-lifetime
        return self.loss.detach().clone()


def fit(model: nn.Module, steps: int) -> tuple[float, float]:
    """Losses of the first and the last step of a linear problem."""
    slope = torch.randn(16, 1, device="cuda")
    x = torch.randn(steps, 64, 16, device="cuda")
    trainer = Trainer(model, batch=64, width=16)
    trainer.capture(x[0], x[0] @ slope)
    losses = [trainer.step(batch, batch @ slope) for batch in x]
    return float(losses[0]), float(losses[-1])


if __name__ == "__main__":
    torch.manual_seed(0)
    first, last = fit(nn.Linear(16, 1, device="cuda"), steps=40)
    print(f"OUTCOME: {'ok' if last < first / 10 else 'wrong-result'}  loss {first:.3f} -> {last:.3f}")
