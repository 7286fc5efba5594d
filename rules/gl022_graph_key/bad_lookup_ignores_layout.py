# fault: graphs were captured for one layout only, and the lookup by size sends every other layout to them
# outcome: wrong-result
import torch
from torch import nn


class Classifier:
    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.net = nn.Linear(12, 2).cuda().requires_grad_(False)
        self.images = torch.zeros(max(sizes), 3, 4, device="cuda")
        self.pool = torch.cuda.graph_pool_handle()
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}
        for size in sorted(sizes, reverse=True):
            self.forward(self.images[:size], mirrored=False)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                out = self.forward(self.images[:size], mirrored=False)
            self.graphs[size] = (graph, out)

    def forward(self, images: torch.Tensor, mirrored: bool) -> torch.Tensor:
        if mirrored:
            images = images.flip(-1)
        return self.net(images.flatten(1))

    def run(self, images: torch.Tensor, mirrored: bool) -> torch.Tensor:
        entry = self.graphs.get(len(images))  # expect: graph-key
        if entry is None:
            return self.forward(images, mirrored)
        graph, out = entry
        self.images[: len(images)].copy_(images)
        graph.replay()
        return out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    classifier, worst = Classifier((2, 4)), 0.0
    for mirrored in (False, True):
        images = torch.randn(4, 3, 4, device="cuda")
        gap = classifier.run(images, mirrored) - classifier.forward(images, mirrored)
        worst = max(worst, gap.abs().max().item())
    print("OUTCOME:", "ok" if worst < 1e-5 else "wrong-result", f"worst gap {worst:.4f}")
