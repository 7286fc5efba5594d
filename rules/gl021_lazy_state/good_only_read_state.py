# right: made on first use inside the capture, but each replay makes it again and only reads it
# outcome: ok
import torch


class Window:
    def __init__(self) -> None:
        self.taper: torch.Tensor | None = None

    def apply(self, frame: torch.Tensor) -> torch.Tensor:
        if self.taper is None:
            self.taper = torch.linspace(0, 1, frame.shape[-1], device=frame.device)  # fine: remade and only read
        return frame * self.taper


if __name__ == "__main__":
    window = Window()
    frame = torch.ones(8, device="cuda")
    window.apply(frame)
    torch.cuda.synchronize()
    window.taper = None  # fine: the capture makes it again
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        shaped = window.apply(frame)
    frame.fill_(6.0)
    graph.replay()
    got, want = shaped.sum().item(), 24.0
    print("OUTCOME:", "ok" if abs(got - want) < 1e-4 else "wrong-result", got)
