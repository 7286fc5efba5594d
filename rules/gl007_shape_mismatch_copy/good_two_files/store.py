import torch


class SlotStore:
    """Rows in numbered slots; the last slot is for padding."""

    def __init__(self, slots, width):
        self.memory = torch.zeros(slots + 1, width, device="cuda")
        self.unused = slots

    def put(self, slots, values):
        self.memory.index_copy_(0, slots, values)
