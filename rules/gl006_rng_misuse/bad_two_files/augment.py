import numpy as np
import torch


class Augment:
    def __init__(self, drop):
        self.drop = drop

    def __call__(self, x):
        gain = float(np.random.normal(2.0, 0.5))  # expect: rng-misuse
        x = torch.nn.functional.dropout(x, self.drop)  # fine: fresh masks at each replay
        return x * gain
