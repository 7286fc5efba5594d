# fault: two graphs share a pool; the one captured first is replayed last and overwrites the other's output
# outcome: wrong-result
import torch


def record(fn, x, pool=None):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            fn(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):  # expect: memory-pool
        out = fn(x)
    return graph, out


class Pair:
    def __init__(self, size):
        self.left, self.right = torch.zeros(size, device="cuda"), torch.zeros(size, device="cuda")
        pool = torch.cuda.graph_pool_handle()
        self.encode, self.code = record(lambda x: (x + 1.0) * 4.0, self.left, pool=pool)
        self.decode, self.text = record(lambda x: x - 2.0, self.right, pool=pool)

    def both(self, left, right):
        self.left.copy_(left)
        self.right.copy_(right)
        self.decode.replay()
        self.encode.replay()
        return self.code + self.text


def main():
    pair = Pair(2048)
    left, right = torch.full((2048,), 3.0, device="cuda"), torch.full((2048,), 9.0, device="cuda")
    got = pair.both(left, right)[0].item()
    return got == 23.0, f"{got} is 23.0"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
