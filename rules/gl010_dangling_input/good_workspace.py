# right: the workspace has its final size before anything is captured; a bigger batch brings a tensor of its own
# outcome: ok
import torch


class Workspace:
    """One scratch tensor that every layer uses."""

    def __init__(self, limit):
        self.data = torch.empty(limit, device="cuda")

    def reserve(self, size):
        if self.data.numel() < size:
            return torch.empty(size, device="cuda")  # fine: the old one stays where it is
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
    squarer = Squarer(Workspace(n), n)
    squarer(torch.ones(2 * n, device="cuda"))
    ledgers = [torch.full((n,), 7.0, device="cuda") for _ in range(6)]
    got = squarer(torch.full((n,), 3.0, device="cuda"))[0].item()
    intact = got == 10.0 and all(bool((ledger == 7.0).all()) for ledger in ledgers)
    print(f"OUTCOME: {'ok' if intact else 'wrong-result'} other tensors were overwritten: {not intact}")
