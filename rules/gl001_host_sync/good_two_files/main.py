# right: the helper keeps its statistics on the GPU
# outcome: ok
import torch
from scaling import AutoScale


class Encoder:
    def __init__(self, width):
        self.weight = torch.randn(width, width, device="cuda") / width**0.5
        self.scale = AutoScale()

    def encode(self, x):
        return self.scale(x @ self.weight).round()


def main():
    encoder, x = Encoder(16), torch.randn(4, 16, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            encoder.encode(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        codes = encoder.encode(x)
    x.normal_()
    graph.replay()
    gap = (codes - encoder.encode(x)).abs().max().item()  # fine: after the replay
    return gap == 0, f"gap {gap}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
