# fault: rows are gathered and scattered with boolean masks inside the captured forward
# outcome: capture-error
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
            rows = tokens[mine]  # expect: dynamic-shape-op
            out[mine] = expert(rows)  # expect: dynamic-shape-op
        return out


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
    try:
        print("OUTCOME: ok", run(ExpertRouter(8, 3).cuda(), torch.randn(12, 8, device="cuda")).shape)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
