# fault: derived weights, a dictionary of tables and a parameter are bound anew after the capture
# outcome: stale-result
import torch
from torch import nn


class Lookup(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.zeros(width))

    def prepare(self) -> None:
        with torch.no_grad():
            self.packed = self.up.weight.t().contiguous()  # as the kernel wants it

    def forward(self, rows: torch.Tensor, tables: dict[str, torch.Tensor]) -> torch.Tensor:
        return rows @ self.packed * tables["scale"] + tables["shift"] + self.bias


class Server:
    def __init__(self, model: Lookup, width: int) -> None:
        self.model = model
        self.rows = torch.ones(2, width, device="cuda")
        self.tables = {"scale": torch.ones(width, device="cuda"), "shift": torch.zeros(width, device="cuda")}
        model.prepare()
        with torch.no_grad():
            model(self.rows, self.tables)
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.out = model(self.rows, self.tables)

    def update(self, weight: torch.Tensor, tables: dict[str, torch.Tensor]) -> None:
        with torch.no_grad():
            self.model.up.weight.copy_(weight)
        self.model.prepare()
        self.model.bias = nn.Parameter(torch.ones_like(self.model.bias))
        self.tables = tables

    def run(self) -> torch.Tensor:
        self.graph.replay()
        return self.out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    server = Server(Lookup(4).cuda(), 4)
    server.update(torch.randn(4, 4, device="cuda"), {n: torch.randn(4, device="cuda") for n in ("scale", "shift")})
    got = server.run()
    with torch.no_grad():
        gap = (got - server.model(server.rows, server.tables)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-5 else "stale-result", f"off by {gap:.4f}")
