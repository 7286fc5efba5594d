# fault: labels are counted with unique and bincount, which must know the number of labels on the host
# outcome: capture-error
import torch
import torch.nn.functional as F


class Purity:
    def __init__(self, n):
        self.labels = torch.zeros(n, dtype=torch.long, device="cuda")

    def compute(self):
        kinds = torch.unique(self.labels)  # expect: dynamic-shape-op
        counts = torch.bincount(self.labels)  # expect: dynamic-shape-op
        table = F.one_hot(self.labels)  # expect: dynamic-shape-op
        return counts.max() / kinds.numel() + table.sum()

    def capture(self):
        for _ in range(3):
            self.compute()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.value = self.compute()


if __name__ == "__main__":
    purity = Purity(10)
    try:
        purity.capture()
        purity.graph.replay()
        print("OUTCOME: ok", purity.value.item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
