# fault: the optimizer that is chosen in the other file cannot be captured at all
# outcome: capture-error
import torch
from settings import build_optimizer, build_schedule
from torch import nn


class Session:
    def __init__(self, width):
        self.net = nn.Linear(width, width).cuda()
        self.optimizer = build_optimizer(self.net.parameters())
        self.bias = nn.Parameter(torch.zeros(width, device="cuda"))
        self.outer = build_schedule([self.bias])
        self.x = torch.randn(8, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def iteration(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = (self.net(self.x) - self.x.flip(-1)).square().mean()
        loss.backward()
        self.optimizer.step()  # expect: optimizer-in-capture
        return loss

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.iteration()
        torch.cuda.current_stream().wait_stream(side)
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.iteration()


def main():
    session = Session(6)
    session.capture()
    session.graph.replay()
    first = session.loss.item()
    for _ in range(20):
        session.graph.replay()
        session.bias.grad = torch.ones_like(session.bias)
        session.outer.step()  # fine: not captured
    return session.loss.item() < first, f"{first:.4f} -> {session.loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except (RuntimeError, KeyError) as error:
        print("OUTCOME: capture-error", repr(error)[:100])
