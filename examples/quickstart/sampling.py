"""How the next token is chosen. Nothing here says that it runs under a capture."""

import torch


def scaled(logits: torch.Tensor, limit: float) -> torch.Tensor:
    peak = logits.abs().max()
    if peak > limit:  # expect: tensor-control-flow
        logits = logits * (limit / peak)
    return logits


def greedy(logits: torch.Tensor, limit: float) -> torch.Tensor:
    token = scaled(logits, limit).argmax(-1)
    print(f"next token {token[0].item()}")  # expect: host-sync, side-effect
    return token
