# right: one backward for each step, or gradients that exist before the first micro-batch
# outcome: ok
import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net
        self.compiled = torch.compile(net, mode="reduce-overhead")
        self.opt = torch.optim.SGD(net.parameters(), lr=0.01)
        for param in net.parameters():
            param.grad = torch.zeros_like(param)  # fine: memory of its own, kept for ever

    def step(self, parts):
        self.opt.zero_grad(set_to_none=False)
        for part in parts:
            torch.compiler.cudagraph_mark_step_begin()
            loss = self.compiled(part).abs().mean() / len(parts)
            loss.backward()  # fine: added to the stable gradients
        self.opt.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = Trainer(nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2)).cuda())
    parts = [torch.randn(4, 6, device="cuda") for _ in range(3)]
    for _ in range(3):
        trainer.step(parts)
    trainer.opt.zero_grad(set_to_none=False)
    trainer.opt.param_groups[0]["lr"] = 0.0
    for _ in range(2):
        trainer.step(parts)
    got = trainer.net[0].weight.grad.clone()
    trainer.net.zero_grad(set_to_none=False)
    for part in parts:
        (trainer.net(part).abs().mean() / len(parts)).backward()
    same = torch.allclose(got, trainer.net[0].weight.grad, atol=1e-4)
    print(f"OUTCOME: {'ok' if same else 'wrong-result'} {got.abs().sum().item():.4f}")
