# right: part of main.py
# outcome: ok
import torch


def in_graph() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
