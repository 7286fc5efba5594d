# right: every expert sees every row and torch.where picks, so all shapes are known
# outcome: ok
import torch
from torch import nn


class ExpertRouter(nn.Module):
    def __init__(self, dim, experts):
        super().__init__()
        self.gate = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(experts))

    def forward(self, tokens):
        choice = self.gate(tokens).argmax(-1)
        out = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            mine = choice == index
            out = torch.where(mine[:, None], expert(tokens), out)  # fine: three arguments
        out[choice < 0] = 0.0  # fine: a mask with a number is masked_fill_
        ranked = out[choice.argsort()]  # fine: an integer index has a known size
        return ranked[choice.argsort().argsort()].masked_fill(choice[:, None] > 99, 0.0)


@torch.no_grad()
def run(router, tokens):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            router(tokens)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = router(tokens)
    graph.replay()
    return out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    router, tokens = ExpertRouter(8, 3).cuda(), torch.randn(12, 8, device="cuda")
    got = run(router, tokens)
    with torch.no_grad():
        want = router(tokens)
    print(f"OUTCOME: {'ok' if torch.allclose(got, want, atol=1e-4) else 'wrong-result'} {tuple(got.shape)}")
