# fault: make_graphed_callables refuses to run under an autocast block that caches weights
# outcome: capture-error
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(rows)))


def train(steps: int) -> tuple[float, float]:
    torch.manual_seed(0)
    tower = Tower(8).cuda()
    opt = torch.optim.SGD(tower.parameters(), lr=0.05)
    rows, goal = torch.randn(16, 8, device="cuda"), torch.zeros(16, 8, device="cuda")
    sample = torch.randn(16, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):  # expect: autocast-cache
        tower = torch.cuda.make_graphed_callables(tower, (sample,))
    losses = []
    for _ in range(steps):
        opt.zero_grad(set_to_none=True)  # fine: the optimizer and its gradients are eager
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = nn.functional.mse_loss(tower(rows), goal)
        loss.backward()
        opt.step()
        losses.append(loss.item())  # fine: not captured
    return losses[0], losses[-1]


if __name__ == "__main__":
    try:
        first, last = train(20)
        print("OUTCOME:", "ok" if last < first else "wrong-result", f"loss {first:.4f} -> {last:.4f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
