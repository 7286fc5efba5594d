# fault: the bias is a temporary in the call that captures; nobody holds it once the call is over
# outcome: wrong-result
import torch


class Projection:
    def __init__(self, width):
        self.points = torch.zeros(width, device="cuda")

    def record(self, bias):
        for _ in range(3):
            self.points + bias
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.moved = self.points + bias

    def move(self, points):
        self.points.copy_(points)
        self.graph.replay()
        return self.moved.clone()


if __name__ == "__main__":
    width = 1 << 20
    projection = Projection(width)
    projection.record(torch.full((width,), 0.25, device="cuda"))  # expect: dangling-input
    noise = [torch.full((width,), 99.0, device="cuda") for _ in range(6)]
    got = projection.move(torch.ones(width, device="cuda"))[0].item()
    print(f"OUTCOME: {'ok' if got == 1.25 else 'wrong-result'} {got} (want 1.25), {len(noise)} later tensors")
