# fault: a metrics object counts its updates in a dictionary from inside the captured forward
# outcome: wrong-result
import torch
from telemetry import Telemetry
from torch import nn


class Policy(nn.Module):
    def __init__(self, dim, telemetry):
        super().__init__()
        self.head = nn.Linear(dim, 2)
        self.telemetry = telemetry

    def forward(self, obs):
        logits = self.head(obs)
        self.telemetry.track("norm", logits.norm())
        return logits


@torch.no_grad()
def main():
    telemetry = Telemetry()
    policy, obs = Policy(4, telemetry).cuda(), torch.ones(1, 4, device="cuda")
    for _ in range(3):
        policy(obs)
    torch.cuda.synchronize()
    telemetry.updates.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        policy(obs)
    for _ in range(6):
        graph.replay()
    value, count = telemetry.summary()["norm"]
    print(f"OUTCOME: {'ok' if count == 6 else 'wrong-result'} {count} updates after 6 replays, last {value:.3f}")


main()
