# right: the group holds a device tensor and the rate is lowered in place
# outcome: ok
import torch
from torch import nn


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr, decay=0.0):
        super().__init__(params, dict(lr=torch.full((), lr, device="cuda"), decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for param in group["params"]:
                param.mul_(1.0 - group["decay"])  # fine: never changed after the construction
                param.sub_(param.grad.sign() * group["lr"])  # fine: a device tensor


def train(layer, data, steps):
    optimizer = Lion(layer.parameters(), lr=1.0)

    def run():
        optimizer.zero_grad(set_to_none=True)
        layer(data).square().sum().backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    moves = []
    for _ in range(steps):
        before = layer.weight.detach().clone()
        graph.replay()
        moves.append((layer.weight - before).abs().max().item())
        for group in optimizer.param_groups:
            group["lr"].mul_(0.1)
    return moves


if __name__ == "__main__":
    torch.manual_seed(0)
    moves = train(nn.Linear(4, 4).cuda(), torch.randn(2, 4, device="cuda"), 3)
    print(f"OUTCOME: {'ok' if moves[2] < 0.05 else 'stale-result'} {[round(m, 3) for m in moves]}")
