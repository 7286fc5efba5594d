# right: an event recorded on the branch is waited for before the capture ends
# outcome: ok
import torch


class TwoBranches:
    def __init__(self, n):
        self.x = torch.zeros(n, device="cuda")
        self.low = torch.zeros(n, device="cuda")
        self.branch = torch.cuda.Stream()

    def run(self):
        forked, done = torch.cuda.Event(), torch.cuda.Event()
        forked.record()
        self.branch.wait_event(forked)
        with torch.cuda.stream(self.branch):  # fine: forked and joined by events
            torch.sub(self.x, 1.0, out=self.low)
            done.record()
        high = self.x + 1.0
        done.wait()
        return high

    def capture(self):
        for _ in range(3):
            self.run()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.high = self.run()


if __name__ == "__main__":
    branches = TwoBranches(8)
    branches.capture()
    branches.x.fill_(5.0)
    branches.graph.replay()
    values = branches.high[0].item(), branches.low[0].item()
    print(f"OUTCOME: {'ok' if values == (6.0, 4.0) else 'wrong-result'} {values}")
