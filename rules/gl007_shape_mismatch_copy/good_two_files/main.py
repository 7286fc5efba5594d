# right: unused rows are sent to a slot that nobody reads
# outcome: ok
import torch
from store import SlotStore


class Writer:
    def __init__(self, store, rows, width):
        self.store = store
        self.values = torch.zeros(rows, width, device="cuda")
        self.slots = torch.zeros(rows, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.store.put(self.slots, self.values)
        torch.cuda.current_stream().wait_stream(side)
        self.store.memory.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.store.put(self.slots, self.values)

    def write(self, slots, values):
        n = values.shape[0]
        self.values[:n].copy_(values)
        self.values[n:].zero_()
        self.slots[:n].copy_(slots)
        self.slots[n:].fill_(self.store.unused)
        self.graph.replay()


def main():
    writer = Writer(SlotStore(8, 4), 3, 4)
    first = torch.ones(3, 4, device="cuda")
    writer.write(torch.tensor([2, 4, 6], device="cuda"), first)
    writer.write(torch.tensor([1], device="cuda"), first[:1] * 5.0)
    kept = writer.store.memory[[2, 4, 6]].sum().item()
    return kept == 12.0, f"{kept} of 12.0 kept"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
