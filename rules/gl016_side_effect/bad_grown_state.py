# fault: the state is bound to a longer tensor inside the captured step; that happens once, and no replay grows it
# outcome: wrong-result
import torch


class Trajectory:
    def __init__(self, dim):
        self.points = torch.zeros(0, dim, device="cuda")

    def step(self, point):
        self.points = torch.cat([self.points, point * 2])  # expect: side-effect
        return self.points.mean(0)


class Tracker:
    def __init__(self, dim):
        self.path = Trajectory(dim)
        self.point = torch.zeros(1, dim, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.path.step(self.point)
        torch.cuda.current_stream().wait_stream(side)
        self.start = self.path.points = torch.zeros(0, dim, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.center = self.path.step(self.point)

    def push(self, point):
        self.point.copy_(point)
        self.graph.replay()
        return self.center.clone()


if __name__ == "__main__":
    tracker = Tracker(2)
    for value in (1.0, 2.0, 3.0):
        center = tracker.push(torch.full((1, 2), value, device="cuda"))
    rows = tracker.path.points.shape[0]
    print(f"OUTCOME: {'ok' if rows == 3 else 'wrong-result'} {rows} rows (want 3), center {center[0].item()} (want 4.0)")
