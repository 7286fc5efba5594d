# right: the same arithmetic with tensor operands, masks and index_select; the loop bound is a host number
# outcome: ok
import torch


class Ring:
    """Keeps the last rows of a stream and mixes them."""

    def __init__(self, slots, width):
        self.rows = torch.randn(slots, width, device="cuda")
        self.head = torch.zeros((), dtype=torch.int64, device="cuda")
        self.count = torch.full((), 2, dtype=torch.int64, device="cuda")
        self.gain = torch.tensor(0.5, device="cuda")
        self.rounds = 2

    def mix(self, x):
        base = self.gain.expand(x.shape[0])
        y = x + base * self.gain
        y = y + self.rows.index_select(0, self.head[None])[0]
        live = torch.arange(self.rows.shape[0], device="cuda") < self.count
        y = y + torch.where(live[:, None], self.rows, 0.0).sum(0)
        for _ in range(self.rounds):  # fine: a host number
            y = torch.tanh(y)
        return y.clamp(max=self.gain)  # fine: clamp takes a tensor


def main():
    ring = Ring(4, 8)
    x = torch.randn(8, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            ring.mix(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ring.mix(x)
    x.normal_()
    ring.head.fill_(3)
    graph.replay()
    return torch.allclose(y, ring.mix(x), atol=1e-5), f"{y.sum().item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
