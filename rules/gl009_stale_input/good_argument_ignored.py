# right: the wrapper owns a static copy of its argument and refreshes it at each call
# outcome: ok
import torch


class Graphed:
    """Captures `fn` on its first call and replays from then on."""

    def __init__(self, fn):
        self.fn = fn
        self.graph = None

    def __call__(self, signal):
        if self.graph is None:
            self.signal = signal.clone()
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.fn(self.signal)
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.result = self.fn(self.signal)  # fine: reads the wrapper's own buffer
        self.signal.copy_(signal)
        self.graph.replay()
        return self.result.clone()


def envelope(signal):
    return signal.abs().cummax(0).values


if __name__ == "__main__":
    torch.manual_seed(0)
    fast = Graphed(envelope)
    fast(torch.randn(16, device="cuda"))
    loud = torch.randn(16, device="cuda") * 9.0
    gap = (fast(loud) - envelope(loud)).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-5 else 'stale-result'} off by {gap:.3f}")
