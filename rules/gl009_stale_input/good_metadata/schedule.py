from dataclasses import dataclass

import torch


@dataclass
class Timing:
    start: torch.Tensor
    gain: torch.Tensor


class Scheduler:
    def __init__(self, lanes):
        self.offsets = torch.arange(lanes, device="cuda")
        self.timing = Timing(start=torch.zeros_like(self.offsets), gain=torch.ones_like(self.offsets))

    def plan(self, tick, level):
        self.timing.start.copy_(self.offsets + tick)  # fine: the temporary is copied, the static tensor stays
        self.timing.gain.fill_(level)
        return Timing(self.timing.start, self.timing.gain)  # fine: a new object around the same tensors
