"""A rollout under torch.compile(mode="reduce-overhead"), which captures graphs by itself. Its outputs are kept."""

import torch
from torch import nn


class Rollout:
    def __init__(self, width: int) -> None:
        self.net = nn.Sequential(nn.Linear(width, 64), nn.Tanh(), nn.Linear(64, width)).cuda().requires_grad_(False)
        self.advance = torch.compile(self.net, mode="reduce-overhead")

    def path(self, state: torch.Tensor, steps: int) -> torch.Tensor:
        states = []
        for _ in range(steps):
            state = self.advance(state)  # expect: compile-cudagraphs
            states.append(state)
        return torch.stack(states)


if __name__ == "__main__":
    torch.manual_seed(0)
    rollout, state = Rollout(16), torch.randn(8, 16, device="cuda")
    wanted, walker = [], state
    for _ in range(6):
        walker = rollout.net(walker)
        wanted.append(walker)
    try:
        off = (rollout.path(state, 6) - torch.stack(wanted)).abs().max().item()
        print(f"OUTCOME: {'ok' if off < 1e-3 else 'wrong-result'}  {off:.3g} off eager")
    except RuntimeError as error:
        print("OUTCOME: wrong-result ", str(error).strip().splitlines()[0])
