# fault: packed documents go through one captured attention without their boundaries, so they see each other and the padding
# outcome: wrong-result
import torch


def attend(packed):
    score = packed @ packed.T / packed.shape[1] ** 0.5
    return score.softmax(-1) @ packed


class PackedScorer:
    def __init__(self, tokens, dim):
        self.packed = torch.zeros(tokens, dim, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                attend(self.packed)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # expect: prefill-capture
            self.mixed = attend(self.packed)

    def __call__(self, documents):
        flat = torch.cat(documents)
        total = flat.shape[0]
        self.packed[:total].copy_(flat)
        self.packed[total:].zero_()
        self.graph.replay()
        return self.mixed[:total].clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    scorer = PackedScorer(16, 4)
    documents = [torch.randn(n, 4, device="cuda") for n in (3, 5, 2)]
    want = torch.cat([attend(d) for d in documents])
    gap = (scorer(documents) - want).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.3f}")
