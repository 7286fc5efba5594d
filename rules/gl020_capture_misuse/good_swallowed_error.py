# right: a failed capture falls back to eager work and the graph is never replayed
# outcome: ok
import torch


def whiten(signal: torch.Tensor) -> torch.Tensor:
    level = signal.std().clamp(min=1e-3)
    return signal / level


class Whitener:
    def __init__(self, size: int) -> None:
        self.signal = torch.ones(size, device="cuda").cumsum(0)
        self.graph: torch.cuda.CUDAGraph | None = torch.cuda.CUDAGraph()

    def prepare(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                whiten(self.signal)
        torch.cuda.current_stream().wait_stream(side)
        try:
            with torch.cuda.graph(self.graph):
                self.out = whiten(self.signal)
        except RuntimeError:  # fine: gives the graph up and goes on eagerly
            self.graph = None

    def run(self, signal: torch.Tensor) -> torch.Tensor:
        self.signal.copy_(signal)
        if self.graph is None:
            return whiten(self.signal)
        self.graph.replay()
        return self.out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    signal = torch.randn(32, device="cuda") * 5
    try:
        whitener = Whitener(32)
        whitener.prepare()
        gap = (whitener.run(signal) - whiten(signal)).abs().max().item()
        print("OUTCOME:", "ok" if gap < 1e-4 else "wrong-result", f"off by {gap:.5f}")
    except (RuntimeError, AttributeError) as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
