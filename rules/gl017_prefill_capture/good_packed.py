# right: a tensor with the document of each token is refreshed and masks the attention
# outcome: ok
import torch


def attend(packed, owner):
    score = packed @ packed.T / packed.shape[1] ** 0.5
    same = owner[:, None] == owner[None, :]
    return score.masked_fill(~same, float("-inf")).softmax(-1) @ packed


class PackedScorer:
    def __init__(self, tokens, dim):
        self.packed = torch.zeros(tokens, dim, device="cuda")
        self.owner = torch.full((tokens,), -1, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                attend(self.packed, self.owner)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):  # fine: attention stays within a document
            self.mixed = attend(self.packed, self.owner)

    def __call__(self, documents):
        flat = torch.cat(documents)
        total = flat.shape[0]
        self.packed[:total].copy_(flat)
        self.packed[total:].zero_()
        self.owner.fill_(-1)
        ids = [torch.full((len(d),), i, device="cuda") for i, d in enumerate(documents)]
        self.owner[:total].copy_(torch.cat(ids))
        self.graph.replay()
        return self.mixed[:total].clone()


if __name__ == "__main__":
    torch.manual_seed(0)
    scorer = PackedScorer(16, 4)
    documents = [torch.randn(n, 4, device="cuda") for n in (3, 5, 2)]
    want = torch.cat([attend(d, torch.zeros(len(d), device="cuda")) for d in documents])
    gap = (scorer(documents) - want).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.3f}")
