# right: checkpoints are loaded in place once a graph holds the weights
# outcome: ok
import torch
from torch import nn


def build(policy, obs):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            policy(obs)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        action = policy(obs)

    def act(fresh):
        obs.copy_(fresh)
        graph.replay()
        return action.clone()

    return act


def sync_weights(policy, learner):
    policy.load_state_dict(learner.state_dict())  # fine: copies into the captured parameters


if __name__ == "__main__":
    torch.manual_seed(0)
    policy, learner = nn.Linear(5, 2).cuda(), nn.Linear(5, 2).cuda()
    start = {name: torch.zeros_like(value) for name, value in policy.state_dict().items()}
    policy.load_state_dict(start, assign=True)  # fine: before the capture
    act = build(policy, torch.zeros(1, 5, device="cuda"))
    sync_weights(policy, learner)
    obs = torch.randn(1, 5, device="cuda")
    got = act(obs)
    gap = (got - learner(obs)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'stale-result'} off by {gap:.3f}")
