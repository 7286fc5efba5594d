# right: the state has its full size from the start and is written at a device index
# outcome: ok
import torch


class Trajectory:
    def __init__(self, limit, dim):
        self.points = torch.zeros(limit, dim, device="cuda")
        self.used = torch.zeros(1, dtype=torch.long, device="cuda")

    def step(self, point):
        self.points.index_copy_(0, self.used, point * 2)  # fine: writes in place at a device index
        self.used.add_(1)  # fine: advances at every replay
        return self.points.sum(0) / self.used


class Tracker:
    def __init__(self, limit, dim):
        self.path = Trajectory(limit, dim)
        self.point = torch.zeros(1, dim, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.path.step(self.point)
        torch.cuda.current_stream().wait_stream(side)
        self.path.points.zero_()
        self.path.used.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.center = self.path.step(self.point)  # fine: the static output, bound in the capture

    def push(self, point):
        self.point.copy_(point)
        self.graph.replay()
        return self.center.clone()


if __name__ == "__main__":
    tracker = Tracker(8, 2)
    for value in (1.0, 2.0, 3.0):
        center = tracker.push(torch.full((1, 2), value, device="cuda"))
    rows = tracker.path.used.item()
    ok = rows == 3 and center[0].item() == 4.0
    print(f"OUTCOME: {'ok' if ok else 'wrong-result'} {rows} rows (want 3), center {center[0].item()} (want 4.0)")
