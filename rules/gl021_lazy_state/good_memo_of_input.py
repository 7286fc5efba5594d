# right: what depends on the input is computed in the graph; only what depends on the shape is memoised
# outcome: ok
import torch
from torch import nn


class SentencePooler(nn.Module):
    def __init__(self, vocab: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.places: dict[int, torch.Tensor] = {}

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        count = tokens.shape[1]
        if count not in self.places:
            self.places[count] = torch.linspace(1, 2, count, device=tokens.device)  # fine: depends on the shape alone
        keep = (tokens != 0).float() * self.places[count]
        return (self.table(tokens) * keep.unsqueeze(-1)).sum(1) / keep.sum(1, keepdim=True)


@torch.no_grad()
def main() -> float:
    torch.manual_seed(0)
    pooler = SentencePooler(50, 4).cuda()
    tokens = torch.tensor([[3, 7, 0, 0], [5, 0, 0, 0]], device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            pooler(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        pooled = pooler(tokens)
    tokens.copy_(torch.tensor([[9, 9, 9, 1], [4, 2, 8, 0]], device="cuda"))
    graph.replay()
    got = pooled.clone()
    return (got - pooler(tokens)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "stale-result", f"off by {gap:.4f}")
