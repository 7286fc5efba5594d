# fault: the capture fails, the error is swallowed, and the dead graph is replayed as if it existed
# outcome: capture-error
import torch


def whiten(signal: torch.Tensor) -> torch.Tensor:
    level = signal.std().item()  # expect: host-sync
    return signal / max(level, 1e-3)


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
        except RuntimeError:  # expect: capture-misuse
            print("capture failed, going on")

    def run(self, signal: torch.Tensor) -> torch.Tensor:
        self.signal.copy_(signal)
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
