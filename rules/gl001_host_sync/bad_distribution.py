# fault: a distribution checks its parameters and its sample on the host
# outcome: capture-error
import torch
from torch import nn
from torch.distributions import Categorical


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.score = nn.Linear(width, experts)

    def forward(self, x):
        choice = Categorical(logits=self.score(x))  # expect: host-sync
        picked = choice.sample()  # fine: multinomial does not wait
        return picked, choice.log_prob(picked)  # expect: host-sync


def main():
    router = Router(8, 4).cuda().requires_grad_(False)
    x = torch.randn(32, 8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            router(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        picked, logp = router(x)
    x.normal_()
    graph.replay()
    want = router.score(x).log_softmax(-1).gather(1, picked[:, None])[:, 0]
    return torch.allclose(logp, want, atol=1e-4), f"{picked.unique().numel()} experts"  # fine: after the replay


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
