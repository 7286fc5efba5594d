# fault: a branch is forked onto a second stream by an event, and nothing waits for it before the capture ends
# outcome: capture-error
import torch


class TwoBranches:
    def __init__(self, n):
        self.x = torch.zeros(n, device="cuda")
        self.low = torch.zeros(n, device="cuda")
        self.branch = torch.cuda.Stream()

    def run(self):
        forked = torch.cuda.Event()
        forked.record()
        self.branch.wait_event(forked)
        with torch.cuda.stream(self.branch):  # expect: stream-escape
            torch.sub(self.x, 1.0, out=self.low)
        return self.x + 1.0

    def capture(self):
        for _ in range(3):
            self.run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.high = self.run()


if __name__ == "__main__":
    branches = TwoBranches(8)
    try:
        branches.capture()
        branches.graph.replay()
        print("OUTCOME: ok", branches.high[0].item(), branches.low[0].item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
