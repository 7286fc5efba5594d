import torch


def build_optimizer(params):
    return torch.optim.Adafactor(params, lr=0.05)


def build_schedule(params):
    return torch.optim.Adam(params, lr=0.05)  # fine: stepped outside the graph
