# fault: a layer formats the activation's mean for a debug message, in the captured forward
# outcome: capture-error
import logging

import torch
from torch import nn

log = logging.getLogger("tower")


class Normed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        x = self.inner(x)
        log.debug("activation %s %s", x.shape, x.dtype)  # fine: metadata
        log.debug(f"mean {x.mean():.3e}")  # expect: host-sync
        return x / x.norm(dim=-1, keepdim=True)


class Tower(nn.Sequential):
    def forward(self, x):
        for number, layer in enumerate(self):
            x = layer(x)
            print(f"layer {number} gives {tuple(x.shape)}")  # fine: printed once, at capture; nothing is read
            print("first row", x[0])  # expect: host-sync
        return x


def main():
    tower = Tower(Normed(8), Normed(8)).cuda().requires_grad_(False)
    x = torch.randn(4, 8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            tower(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = tower(x)
    x.normal_()
    graph.replay()
    return torch.allclose(out, tower(x), atol=1e-5), f"mean {out.mean():.3e}"  # fine: after the replay


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
