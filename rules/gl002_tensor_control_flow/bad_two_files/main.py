# fault: a wrapper captures whatever it is given; the branch on a tensor is in the module of another file
# outcome: capture-error
import torch
from gating import Gate


class Captured:
    def __init__(self, fn, example):
        self.fn, self.x = fn, example.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.fn(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = self.fn(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


def main():
    gate = Gate(8).cuda().requires_grad_(False)
    fast = Captured(gate, torch.randn(4, 8, device="cuda"))
    x = torch.randn(4, 8, device="cuda") * 3.0
    gap = (fast(x) - gate(x)).abs().max().item()
    return gap < 1e-5, f"off by {gap:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
