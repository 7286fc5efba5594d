# fault: every field of the record is copied by name, and what is left of a longer batch stays behind
# outcome: stale-result
from dataclasses import dataclass, fields

import torch


@dataclass
class Orders:
    price: torch.Tensor
    amount: torch.Tensor


class Ledger:
    def __init__(self, most):
        self.kept = Orders(torch.zeros(most, device="cuda"), torch.zeros(most, device="cuda"))
        self.total()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.total()

    def total(self):
        return (self.kept.price * self.kept.amount).sum()

    def close(self, orders):
        n = orders.price.shape[0]
        for field in fields(orders):
            buffer = getattr(self.kept, field.name)
            buffer[:n].copy_(getattr(orders, field.name))  # expect: shape-mismatch-copy
        self.graph.replay()
        return self.out.item()


def main():
    ledger = Ledger(8)
    got = []
    for n in (8, 3):
        got.append(ledger.close(Orders(torch.ones(n, device="cuda"), torch.full((n,), 2.0, device="cuda"))))
    return got == [16.0, 6.0], f"{got}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
