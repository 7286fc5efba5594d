# fault: torch's own layers read back: batch norm with momentum=None, a checked gradient norm
# outcome: capture-error
import torch
from torch import nn


class Regression:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width, momentum=None), nn.Linear(width, 1)).cuda()
        self.x = torch.randn(16, width, device="cuda")
        self.y = torch.randn(16, 1, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def backward(self):
        loss = nn.functional.mse_loss(self.net(self.x), self.y)  # expect: host-sync
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, error_if_nonfinite=True)  # expect: host-sync
        return loss, norm

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.net.zero_grad(set_to_none=True)
                self.backward()
        torch.cuda.current_stream().wait_stream(side)
        self.net.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss, self.norm = self.backward()


def main():
    job = Regression(8)
    job.build()
    job.graph.replay()
    if not torch.isfinite(job.norm):  # fine: after the replay
        return False, "the norm is not finite"
    return job.loss.item() > 0, f"norm {job.norm.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
