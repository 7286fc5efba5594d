# fault: a captured block measures itself with events and waits for the device
# outcome: capture-error
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.start = torch.cuda.Event(enable_timing=True)
        self.stop = torch.cuda.Event(enable_timing=True)

    def forward(self, x):
        self.start.record()
        y = self.down(torch.relu(self.up(x)))
        self.stop.record()
        while not self.stop.query():  # expect: host-sync
            pass
        torch.cuda.synchronize()  # expect: host-sync
        return x + y


class Runner:
    def __init__(self, block, width):
        self.block = block
        self.x = torch.zeros(4, width, device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.block(self.x)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()  # fine: before the capture
        with torch.cuda.graph(self.graph):
            self.y = self.block(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.block.start.record()
        self.graph.replay()
        self.block.stop.record()
        self.block.stop.synchronize()  # fine: after the replay
        return self.y.clone(), self.block.start.elapsed_time(self.block.stop)


def main():
    runner = Runner(Block(8).cuda().requires_grad_(False), 8)
    runner.build()
    x = torch.randn(4, 8, device="cuda")
    y, elapsed = runner(x)
    return torch.allclose(y, runner.block(x), atol=1e-5), f"{elapsed >= 0}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
