# fault: the temperature is another number while capturing, and the graph keeps that number
# outcome: wrong-result
import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self, width: int, temperature: float) -> None:
        super().__init__()
        self.head = nn.Linear(width, 5)
        self.temperature = temperature

    def forward(self, state: torch.Tensor) -> torch.Tensor:
        temperature = 1.0 if torch.cuda.is_current_stream_capturing() else self.temperature  # expect: capture-branch
        return (self.head(state) / temperature).softmax(-1)


class Player:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy.requires_grad_(False)
        self.state = torch.zeros(4, 6, device="cuda")
        self.policy(self.state)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.probs = self.policy(self.state)

    def act(self, state: torch.Tensor) -> torch.Tensor:
        self.state.copy_(state)
        self.graph.replay()
        return self.probs.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    player = Player(Policy(6, 0.25).cuda())
    state = torch.randn(4, 6, device="cuda")
    gap = (player.act(state) - player.policy(state)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-4 else "wrong-result", f"off by {gap:.4f}")
