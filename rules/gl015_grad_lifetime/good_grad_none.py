# right: gradients of the captured model stay; only those of another model are freed
# outcome: ok
import torch
from torch import nn


class Critic:
    def __init__(self, dim):
        self.net = nn.Linear(dim, 1).cuda()
        self.states = torch.randn(8, dim, device="cuda")

    def accumulate(self):
        self.net(self.states).square().mean().backward()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.accumulate()
        torch.cuda.current_stream().wait_stream(side)
        self.net.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.accumulate()


def free_gradients(module):
    for param in module.parameters():
        param.grad = None  # fine: called for the actor only, which runs eagerly


def learn(critic, actor, states):
    critic.states.copy_(states)
    critic.graph.replay()
    actor(states).square().mean().backward()
    with torch.no_grad():
        for module in (critic.net, actor):
            for param in module.parameters():
                param.sub_(param.grad, alpha=0.1)
    free_gradients(actor)


if __name__ == "__main__":
    torch.manual_seed(0)
    critic, actor = Critic(4), nn.Linear(4, 2).cuda()
    critic.capture()
    learn(critic, actor, torch.randn(8, 4, device="cuda"))
    before = critic.net.weight.detach().clone()
    learn(critic, actor, torch.randn(8, 4, device="cuda"))
    moved = (critic.net.weight - before).abs().max().item()
    print(f"OUTCOME: {'ok' if moved > 0 else 'wrong-result'} second step moved the weights by {moved:.4f}")
