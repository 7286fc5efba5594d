# fault: the best candidate so far is the static output itself, which every later replay overwrites
# outcome: wrong-result
from dataclasses import dataclass

import torch


@dataclass
class Champion:
    cost: float
    point: torch.Tensor


class Climber:
    def __init__(self, width):
        self.start = torch.zeros(width, device="cuda")
        self.propose()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.point, self.cost = self.propose()

    def propose(self):
        point = self.start * 2
        return point, point.square().sum()

    def search(self, steps):
        best = Champion(float("inf"), self.start)
        for step in range(steps):
            self.start.fill_(step + 1.0)
            self.graph.replay()
            cost = self.cost.item()
            if cost < best.cost:
                best = Champion(cost, self.point)  # expect: output-reuse
        return best


def main():
    best = Climber(16).search(20)
    gap = abs(best.point.square().sum().item() - best.cost)
    return gap < 1e-3, f"its cost is off by {gap:.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
