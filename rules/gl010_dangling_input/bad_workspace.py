# fault: the shared workspace is grown for a bigger batch while a captured graph still writes to the small one
# outcome: wrong-result
import torch


class Workspace:
    """One scratch tensor that every layer uses."""

    def __init__(self):
        self.data = torch.empty(0, device="cuda")

    def reserve(self, size):
        if self.data.numel() < size:
            self.data = torch.empty(size, device="cuda")  # expect: dangling-input
        return self.data[:size]


class Squarer:
    def __init__(self, workspace, size):
        self.workspace = workspace
        self.x = torch.zeros(size, device="cuda")
        for _ in range(3):
            self.forward(self.x)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.forward(self.x)

    def forward(self, x):
        scratch = self.workspace.reserve(x.numel())
        torch.mul(x, x, out=scratch)
        return scratch + 1.0

    def __call__(self, x):
        if x.numel() != self.x.numel():
            return self.forward(x)
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


if __name__ == "__main__":
    n = 1 << 20
    squarer = Squarer(Workspace(), n)
    squarer(torch.ones(2 * n, device="cuda"))
    ledgers = [torch.full((n,), 7.0, device="cuda") for _ in range(6)]
    squarer(torch.full((n,), 3.0, device="cuda"))
    intact = all(bool((ledger == 7.0).all()) for ledger in ledgers)
    print(f"OUTCOME: {'ok' if intact else 'wrong-result'} other tensors were overwritten: {not intact}")
