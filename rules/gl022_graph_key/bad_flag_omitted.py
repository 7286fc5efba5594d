# fault: graphs are cached by batch size alone, although the captured work also depends on a flag
# outcome: wrong-result
import torch
from torch import nn


class Scorer:
    def __init__(self, width: int, largest: int) -> None:
        self.net = nn.Linear(width, 3).cuda().requires_grad_(False)
        self.rows = torch.zeros(largest, width, device="cuda")
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[object, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def forward(self, rows: torch.Tensor, as_probs: bool) -> torch.Tensor:
        logits = self.net(rows)
        if as_probs:  # fine: a Python flag, frozen at capture
            return logits.softmax(-1)
        return logits

    def score(self, rows: torch.Tensor, as_probs: bool) -> torch.Tensor:
        count = rows.shape[0]
        key = count
        self.rows[:count].copy_(rows)
        if key not in self.graphs:
            self.forward(self.rows[:count], as_probs)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                out = self.forward(self.rows[:count], as_probs)
            self.graphs[key] = (graph, out)  # expect: graph-key
        graph, out = self.graphs[key]
        graph.replay()
        return out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    scorer = Scorer(5, 4)
    rows = torch.randn(4, 5, device="cuda")
    scorer.score(rows, as_probs=False)
    got = scorer.score(rows, as_probs=True)
    gap = (got - scorer.forward(rows, as_probs=True)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.4f}")
