"""Scales activations to the range of eight bits."""

import math


class AutoScale:
    levels = 127

    def __call__(self, x):
        peak = float(x.abs().max())  # expect: host-sync
        return x * (self.levels / max(peak, 1e-6))

    def bits(self):
        return math.log2(self.levels + 1)  # fine: a host number
