# right: the total length is fixed and passed, or the repeat count is one number
# outcome: ok
import torch

torch.manual_seed(0)
TOTAL = 8
syllables = torch.randn(5, 3, device="cuda")
lengths = torch.tensor([2, 1, 3, 1, 1], device="cuda")


def stretch():
    twice = syllables.repeat_interleave(2, dim=0)  # fine: an integer
    frames = syllables.repeat_interleave(lengths, dim=0, output_size=TOTAL)  # fine: the size is given
    return frames.cumsum(0) + twice[0]


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        stretch()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    frames = stretch()
lengths.copy_(torch.tensor([1, 1, 1, 1, 4]))
graph.replay()
want = syllables.repeat_interleave(lengths, dim=0).cumsum(0) + syllables[0]  # fine: eager
print(f"OUTCOME: {'ok' if torch.allclose(frames, want, atol=1e-5) else 'wrong-result'} {tuple(frames.shape)}")
