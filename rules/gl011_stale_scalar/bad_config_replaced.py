# fault: a configuration object with another number takes the place of the one that the capture read
# outcome: stale-result
from dataclasses import dataclass, replace

import torch


@dataclass(frozen=True)
class Look:
    gamma: float = 1.0
    floor: float = 0.0


class Screen:
    def __init__(self, look):
        self.look = look
        self.image = torch.full((8,), 0.5, device="cuda")
        self.shade()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.shown = self.shade()

    def shade(self):
        return self.image**self.look.gamma + self.look.floor  # expect: stale-scalar

    def show(self, gamma):
        self.look = replace(self.look, gamma=gamma)
        self.graph.replay()
        return self.shown[0].item()


def main():
    screen = Screen(Look())
    got = [screen.show(gamma) for gamma in (1.0, 2.0)]
    return got == [0.5, 0.25], f"{got}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
