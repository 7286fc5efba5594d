# right: the decorator turns the weight cache off, so every captured layer casts its live weight
# outcome: ok
import torch
from torch import nn


class DenoiserRunner:
    def __init__(self, net: nn.Module, shape: tuple[int, ...]) -> None:
        self.net = net
        self.latent = torch.zeros(shape, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        self.prepare()

    @torch.autocast("cuda", dtype=torch.float16, cache_enabled=False)  # fine: nothing is cached
    def prepare(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.net(self.latent)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(self.graph):
            self.noise = self.net(self.latent)

    def step(self, latent: torch.Tensor) -> torch.Tensor:
        self.latent.copy_(latent)
        self.graph.replay()  # fine: a replay needs no autocast
        return self.noise.detach().clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = nn.Conv1d(4, 4, 3, padding=1).cuda()
    runner = DenoiserRunner(net, (2, 4, 16))
    with torch.no_grad():
        net.weight.add_(0.5)
    latent = torch.randn(2, 4, 16, device="cuda")
    got = runner.step(latent)
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.float16):
        gap = (got - net(latent)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 0.05 else "stale-result", f"off by {gap:.3f} after the weight moved")
