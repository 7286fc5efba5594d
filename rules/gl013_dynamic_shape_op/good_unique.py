# right: the number of classes is a constant, so counts have a fixed size
# outcome: ok
import torch
import torch.nn.functional as F

CLASSES = 6


class Purity:
    def __init__(self, n):
        self.labels = torch.zeros(n, dtype=torch.long, device="cuda")
        self.ones = torch.ones(n, dtype=torch.long, device="cuda")

    def compute(self):
        counts = self.ones.new_zeros(CLASSES).scatter_add_(0, self.labels, self.ones)  # fine: fixed size
        table = F.one_hot(self.labels, CLASSES)  # fine: the number of classes is given
        kinds = (counts > 0).sum()  # fine: a reduction
        ordered = self.labels.sort().values  # fine: as long as the input
        return counts.max() / kinds + table.sum() + ordered[0]

    def capture(self):
        for _ in range(3):
            self.compute()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.value = self.compute()


if __name__ == "__main__":
    purity = Purity(10)
    purity.capture()
    purity.labels.copy_(torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 2]))
    purity.graph.replay()
    want = torch.bincount(purity.labels).max() / torch.unique(purity.labels).numel() + 10  # fine: not captured
    got = purity.value.item()
    print(f"OUTCOME: {'ok' if abs(got - want.item()) < 1e-5 else 'wrong-result'} {got:.3f}")
