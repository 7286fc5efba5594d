# right: a fixed number of sweeps is captured; the host decides between replays whether another block is needed
# outcome: ok
import torch


class Relaxation:
    def __init__(self, size):
        self.matrix = torch.eye(size, device="cuda") * 4.0 + torch.rand(size, size, device="cuda") / size
        self.rhs = torch.rand(size, device="cuda")
        self.x = torch.zeros(size, device="cuda")
        self.residual = torch.ones((), device="cuda")
        self.graph = torch.cuda.CUDAGraph()

    def sweep(self):
        diagonal = self.matrix.diagonal()
        self.x.add_((self.rhs - self.matrix @ self.x) / diagonal)
        self.residual.copy_((self.rhs - self.matrix @ self.x).abs().max())

    def block(self):
        for _ in range(8):  # fine: a constant number of sweeps
            self.sweep()

    def build(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.block()
        torch.cuda.current_stream().wait_stream(side)
        self.x.zero_()
        self.residual.fill_(1.0)
        with torch.cuda.graph(self.graph):
            self.block()

    def solve(self):
        for _ in range(20):
            self.graph.replay()
            if self.residual < 1e-5:  # fine: between replays
                break
        return self.residual.item()


def main():
    job = Relaxation(16)
    job.build()
    left = job.solve()
    return left < 1e-5, f"residual {left:.1e}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
