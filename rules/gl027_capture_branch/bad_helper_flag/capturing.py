# fault: part of main.py; true while the current stream is being captured
# outcome: wrong-result
import torch


def in_graph() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
