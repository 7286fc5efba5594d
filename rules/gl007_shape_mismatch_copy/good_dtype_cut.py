# right: the buffer has the dtype of what is copied; rounding is written out
# outcome: ok
import torch


class Interpolator:
    def __init__(self, curve, points):
        self.curve = curve
        self.at = torch.zeros(points, dtype=torch.float32, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.evaluate()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.values = self.evaluate()

    def evaluate(self):
        low = self.at.floor().long().clamp(max=self.curve.shape[0] - 2)
        part = self.at - low
        return self.curve[low] * (1 - part) + self.curve[low + 1] * part

    def __call__(self, at):
        self.at.copy_(at)
        self.graph.replay()
        return self.values.clone()


def main():
    interpolate = Interpolator(torch.arange(8, device="cuda") * 10.0, 4)
    at = torch.rand(4, dtype=torch.float32, device="cuda") * 6.0
    gap = (interpolate(at) - at * 10.0).abs().max().item()
    return gap < 1e-3, f"off by {gap:.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
