# right: the model has run before in `calibrate`; one eager call anywhere is a warm-up
# outcome: ok
import torch
from recording import record
from torch import nn


class Smoother(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, width, padding="same")

    def forward(self, x):
        return self.conv(x).relu()


def calibrate(model, x):
    """The largest activation, for later scaling."""
    return model(x).amax().item()


def main():
    model = Smoother(5).cuda().requires_grad_(False)
    x = torch.randn(2, 1, 32, device="cuda")
    calibrate(model, x)
    graph, y = record(model, x)
    x.normal_()
    graph.replay()
    gap = (y - model(x)).abs().max().item()
    return gap < 1e-4, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
