"""How the next token is chosen: the limit is applied on the device, and nothing is read back."""

import torch


def scaled(logits: torch.Tensor, limit: float) -> torch.Tensor:
    peak = logits.abs().max()
    return logits * (limit / peak).clamp_max(1.0)


def greedy(logits: torch.Tensor, limit: float) -> torch.Tensor:
    return scaled(logits, limit).argmax(-1)
