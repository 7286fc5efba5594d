# fault: the compiled function writes into a tensor that eager code passes in, so CUDA graphs are skipped with a log line only
# outcome: slow
import torch
from torch._dynamo.utils import counters


class Reservoir:
    def __init__(self, n):
        self.level = torch.zeros(n, device="cuda")
        self.advance = torch.compile(self._advance, mode="reduce-overhead")

    @staticmethod
    def _advance(level, rain):
        level.add_(rain)  # expect: compile-cudagraphs
        return level * 0.5

    def run(self, rain, days):
        for _ in range(days):
            torch.compiler.cudagraph_mark_step_begin()
            out = self.advance(self.level, rain).clone()
        return out


if __name__ == "__main__":
    with torch.no_grad():
        out = Reservoir(16).run(torch.ones(16, device="cuda"), 5)
    skips = counters["inductor"]["cudagraph_skips"]
    print(f"OUTCOME: {'slow' if skips else 'ok'} {skips} skips, result {out[0].item()}")
