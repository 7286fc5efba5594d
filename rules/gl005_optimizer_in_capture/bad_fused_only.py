# fault: fused=True is not enough: torch looks at capturable alone
# outcome: capture-error
import torch
from torch import nn


class Learner:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1)).cuda()
        self.optimizer = self.make_optimizer()
        self.x = torch.randn(16, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def make_optimizer(self):
        return torch.optim.AdamW(self.net.parameters(), lr=0.01, fused=True)

    def learn(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.net(self.x) - self.x.sum(-1, keepdim=True)).square().mean()
        loss.backward()
        self.optimizer.step()  # expect: optimizer-in-capture
        return loss

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.learn()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.learn()


def main():
    learner = Learner(6)
    learner.build()
    learner.graph.replay()
    first = learner.loss.item()
    for _ in range(30):
        learner.graph.replay()
    return learner.loss.item() < first, f"{first:.4f} -> {learner.loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
