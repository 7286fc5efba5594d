# fault: gradients accumulate over micro-batches, but the first .grad is an output of the compiled backward graph
# outcome: capture-error
import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net
        self.compiled = torch.compile(net, mode="reduce-overhead")
        self.opt = torch.optim.SGD(net.parameters(), lr=0.01)

    def step(self, parts):
        self.opt.zero_grad(set_to_none=True)
        for part in parts:
            torch.compiler.cudagraph_mark_step_begin()
            loss = self.compiled(part).abs().mean() / len(parts)
            loss.backward()  # expect: compile-cudagraphs
        self.opt.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)).cuda())
    try:
        for _ in range(3):
            trainer.step([torch.randn(4, 6, device="cuda") for _ in range(3)])
        torch.cuda.synchronize()
        print("OUTCOME: ok trained")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0][:120])
