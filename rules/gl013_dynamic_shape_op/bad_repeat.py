# fault: rows are repeated by a tensor of counts, so the length of the result must be read back
# outcome: capture-error
import torch

torch.manual_seed(0)
syllables = torch.randn(5, 3, device="cuda")
lengths = torch.tensor([2, 1, 3, 1, 1], device="cuda")


def stretch():
    frames = syllables.repeat_interleave(lengths, dim=0)  # expect: dynamic-shape-op
    return frames.cumsum(0)


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        stretch()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        frames = stretch()
    print("OUTCOME: ok", tuple(frames.shape))
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
