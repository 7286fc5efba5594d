# right: the object that owns the graph keeps what it was captured with
# outcome: ok
import torch


class Projection:
    def __init__(self, width):
        self.points = torch.zeros(width, device="cuda")

    def record(self, bias):
        self.bias = bias  # fine: now the temporary lives as long as the graph
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
    projection.record(torch.full((width,), 0.25, device="cuda"))
    noise = [torch.full((width,), 99.0, device="cuda") for _ in range(6)]
    got = projection.move(torch.ones(width, device="cuda"))[0].item()
    print(f"OUTCOME: {'ok' if got == 1.25 else 'wrong-result'} {got} (want 1.25), {len(noise)} later tensors")
