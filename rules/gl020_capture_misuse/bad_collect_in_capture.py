# fault: the captured forward collects garbage, and an old graph that hangs in a reference cycle dies inside the capture
# outcome: capture-error
import gc

import torch
from torch import nn


class Session:
    """Holds itself through its callback, as many runners do: only the garbage collector frees it."""

    def __init__(self, layer: nn.Module, rows: int) -> None:
        self.layer = layer
        self.rows = torch.zeros(rows, 5, device="cuda")
        self.on_run = self.forward
        self.layer(self.rows)
        torch.cuda.synchronize()

    def forward(self) -> torch.Tensor:
        hidden = self.layer(self.rows)
        gc.collect()  # expect: capture-misuse
        return hidden.relu()

    def capture(self) -> None:
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.on_run()


def main() -> str:
    torch.manual_seed(0)
    layer = nn.Linear(5, 5).cuda().requires_grad_(False)
    session = Session(layer, 2)
    session.capture()
    session = Session(layer, 4)
    session.capture()
    session.rows.normal_()
    session.graph.replay()
    gap = (session.out - layer(session.rows).relu()).abs().max().item()
    return f"{'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.6f}"


if __name__ == "__main__":
    gc.disable()
    try:
        print("OUTCOME:", main())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
