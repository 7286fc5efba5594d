# fault: a checkpoint is loaded with assign=True after the capture, so the module holds tensors that the graph does not know
# outcome: stale-result
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
    state = {name: value.clone() for name, value in learner.state_dict().items()}
    policy.load_state_dict(state, strict=True, assign=True)  # expect: stale-input


if __name__ == "__main__":
    torch.manual_seed(0)
    policy, learner = nn.Linear(5, 2).cuda(), nn.Linear(5, 2).cuda()
    before = list(policy.parameters())
    act = build(policy, torch.zeros(1, 5, device="cuda"))
    sync_weights(policy, learner)
    obs = torch.randn(1, 5, device="cuda")
    got = act(obs)
    gap = (got - learner(obs)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'stale-result'} off by {gap:.3f}, {len(before)} old tensors alive")
