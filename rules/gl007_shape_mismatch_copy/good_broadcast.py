# right: the rows are counted, the head is written and the rest is cleared
# outcome: ok
import torch


class ColumnSums:
    def __init__(self, rows, width):
        self.batch = torch.zeros(rows, width, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.batch.exp().sub(1.0).sum(0)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.total = self.batch.exp().sub(1.0).sum(0)

    def run(self, batch):
        count = batch.shape[0]
        self.batch[:count].copy_(batch)
        self.batch[count:].zero_()
        self.graph.replay()
        return self.total.clone()


def main():
    sums = ColumnSums(4, 8)
    last = torch.rand(1, 8, device="cuda")
    sums.run(torch.rand(4, 8, device="cuda"))
    gap = (sums.run(last) - last.exp().sub(1.0).sum(0)).abs().max().item()
    return gap < 1e-4, f"off by {gap:.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
