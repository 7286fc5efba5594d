# fault: the captured function reads its scale on the host, and the error that follows is swallowed
# outcome: capture-error
import torch


class Levelled:
    def __init__(self, signal: torch.Tensor) -> None:
        self.signal = signal
        self.graph = torch.cuda.CUDAGraph()
        self.level()
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(self.graph):
                self.out = self.level()
        except RuntimeError:
            pass  # it will do

    def level(self) -> torch.Tensor:
        loud = float(self.signal.abs().amax())
        shift = self.signal.mean().item()
        return (self.signal - shift) / loud

    def run(self) -> torch.Tensor:
        self.graph.replay()
        return self.out.clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    signal = torch.randn(16, device="cuda")
    try:
        levelled = Levelled(signal)
        signal.mul_(4.0)
        gap = (levelled.run() - levelled.level()).abs().max().item()
        print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.4f}")
    except (RuntimeError, AttributeError) as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
