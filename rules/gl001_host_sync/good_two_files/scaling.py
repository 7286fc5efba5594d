"""Scales activations to the range of eight bits."""

import math


class AutoScale:
    levels = 127

    def __call__(self, x):
        peak = x.abs().max().clamp(min=1e-6)
        return x * (self.levels / peak)

    def bits(self):
        return math.log2(self.levels + 1)  # fine: a host number
