# right: both are drawn on the device, so each replay draws anew
# outcome: ok

import torch


class Jitter:
    """Adds noise of a random level, and mirrors the signal now and then."""

    def __call__(self, x):
        level = torch.empty((), device=x.device).uniform_(0.5, 1.0)
        flip = torch.rand((), device=x.device) < 0.5  # fine: default generator, advances at each replay
        return torch.where(flip, -x, x) + level


def main():
    jitter, x = Jitter(), torch.ones(16, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            jitter(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = jitter(x)
    sums = set()
    for _ in range(8):
        graph.replay()
        sums.add(round(y.sum().item(), 4))
    return len(sums) > 4, f"{len(sums)} different results in 8 replays"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
