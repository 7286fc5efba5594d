# right: the captured forward leaves its metric in a static tensor, and the code that replays counts
# outcome: ok
import torch
from telemetry import Telemetry
from torch import nn


class Policy(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.head = nn.Linear(dim, 2)
        self.register_buffer("norm", torch.zeros(()))

    def forward(self, obs):
        logits = self.head(obs)
        self.norm.copy_(logits.norm())  # fine: a device write
        return logits


@torch.no_grad()
def main():
    telemetry = Telemetry()
    policy, obs = Policy(4).cuda(), torch.ones(1, 4, device="cuda")
    for _ in range(3):
        policy(obs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        policy(obs)
    for _ in range(6):
        graph.replay()
        telemetry.track("norm", policy.norm.clone())
    value, count = telemetry.summary()["norm"]
    print(f"OUTCOME: {'ok' if count == 6 else 'wrong-result'} {count} updates after 6 replays, last {value:.3f}")


main()
