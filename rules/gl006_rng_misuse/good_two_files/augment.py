import torch


class Augment:
    def __init__(self, drop):
        self.drop = drop

    def __call__(self, x):
        gain = torch.randn((), device=x.device) * 0.5 + 2.0
        x = torch.nn.functional.dropout(x, self.drop)  # fine: fresh masks at each replay
        return x * gain
