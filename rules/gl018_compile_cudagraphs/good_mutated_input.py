# right: the function is pure and the caller copies the new value; module buffers may be written
# outcome: ok
import torch
from torch import nn
from torch._dynamo.utils import counters


class Clock(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ticks", torch.zeros(1))

    def forward(self, level, rain):
        self.ticks.add_(1)  # fine: a buffer has a static address
        local = level.clone()
        local.add_(rain)  # fine: made inside the function
        return local, self.ticks * 1.0


class Reservoir:
    def __init__(self, n):
        self.level = torch.zeros(n, device="cuda")
        self.advance = torch.compile(Clock().cuda(), mode="reduce-overhead")

    def run(self, rain, days):
        for _ in range(days):
            torch.compiler.cudagraph_mark_step_begin()
            level, ticks = self.advance(self.level, rain)
            self.level.copy_(level)  # fine: eager code writes after the call
        return self.level * 0.5, ticks.clone()


if __name__ == "__main__":
    with torch.no_grad():
        out, ticks = Reservoir(16).run(torch.ones(16, device="cuda"), 5)
    skips = counters["inductor"]["cudagraph_skips"]
    right = out[0].item() == 2.5 and ticks.item() == 5.0
    print(f"OUTCOME: {'slow' if skips else 'ok' if right else 'wrong-result'} {skips} skips, result {out[0].item()}")
