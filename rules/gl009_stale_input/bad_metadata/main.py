# fault: the scheduler makes new metadata tensors at each step; the graph reads those of the capture for ever
# outcome: stale-result
import torch
from schedule import Scheduler
from torch import nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("wave", torch.linspace(0.0, 1.0, 32))

    def forward(self, timing):
        return self.wave[timing.start] * timing.gain


class Desk:
    def __init__(self, lanes):
        self.mixer, self.scheduler = Mixer().cuda(), Scheduler(lanes)
        timing = self.scheduler.plan(0, 1)
        for _ in range(3):
            self.mixer(timing)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        self.first = timing
        with torch.cuda.graph(self.graph):
            self.mix = self.mixer(timing)

    def step(self, tick, level):
        self.scheduler.plan(tick, level)
        self.graph.replay()
        return self.mix.clone()


if __name__ == "__main__":
    desk = Desk(4)
    got = desk.step(9, 3)
    want = desk.mixer(Scheduler(4).plan(9, 3))
    print(f"OUTCOME: {'ok' if torch.allclose(got, want) else 'stale-result'} {got.tolist()} for {want.tolist()}")
