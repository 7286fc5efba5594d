# right: the graph is captured before anything iterates the loader
# outcome: ok
# whether the two meet is a matter of timing
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Evaluator:
    def __init__(self, width: int, batch: int) -> None:
        self.net = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)).cuda().requires_grad_(False)
        self.batch = torch.zeros(batch, width, device="cuda")
        self.graph: torch.cuda.CUDAGraph | None = None

    def capture(self) -> None:
        self.net(self.batch)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.scores = self.net(self.batch)

    def evaluate(self, loader: DataLoader) -> float:
        total = torch.zeros((), device="cuda")
        self.capture()  # fine: no pinning thread yet
        for (rows,) in loader:
            self.batch.copy_(rows, non_blocking=True)
            self.graph.replay()
            total += self.scores.sum()
        return total.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    rows = torch.randn(32, 8)
    evaluator = Evaluator(8, 4)
    data = TensorDataset(rows)
    got = evaluator.evaluate(DataLoader(data, batch_size=4, num_workers=1, pin_memory=True, drop_last=True))
    want = evaluator.net(rows.cuda()).sum().item()
    print("OUTCOME:", "ok" if abs(got - want) < 1e-3 else "wrong-result", f"{got:.4f} for {want:.4f}")
