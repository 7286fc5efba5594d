# fault: a step marker between two calls whose outputs are both needed gives the first one up; a clone is what was needed
# outcome: wrong-result
import torch
from torch import nn


class Siamese:
    def __init__(self, dim):
        self.tower = torch.compile(nn.Linear(dim, dim).cuda().requires_grad_(False), mode="reduce-overhead")

    def warm_up(self, x):
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            self.tower(x).sum().item()

    def gap(self, left, right):
        torch.compiler.cudagraph_mark_step_begin()
        a = self.tower(left)  # expect: compile-cudagraphs
        torch.compiler.cudagraph_mark_step_begin()
        b = self.tower(right)
        return (a - b).abs().sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    siamese = Siamese(8)
    left, right = torch.zeros(2, 8, device="cuda"), torch.ones(2, 8, device="cuda")
    siamese.warm_up(left)
    try:
        got = siamese.gap(left, right).item()
        print(f"OUTCOME: {'ok' if got > 1e-3 else 'wrong-result'} distance {got:.4f} of different inputs")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0][:120])
