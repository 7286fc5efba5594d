# right: the tail is cleared with the head
# outcome: ok
import torch


class Histogram:
    """Counts token ids, with id 0 for padding."""

    def __init__(self, length, vocabulary):
        self.tokens = torch.zeros(length, dtype=torch.int64, device="cuda")
        self.counts = torch.zeros(vocabulary, device="cuda")
        self.ones = torch.ones(length, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.count()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.count()

    def count(self):
        self.counts.zero_().scatter_add_(0, self.tokens, self.ones)

    def __call__(self, tokens):
        n = len(tokens)
        self.tokens[:n] = tokens
        self.tokens[n:] = 0  # fine: a slice is filled, nothing is copied from the host
        self.graph.replay()
        return self.counts.tolist()


def main():
    count = Histogram(6, 5)
    count(torch.tensor([1, 2, 3, 4, 1, 2], device="cuda"))
    got = count(torch.tensor([3, 3], device="cuda"))
    return got[1:] == [0.0, 0.0, 2.0, 0.0], f"counts {got}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
