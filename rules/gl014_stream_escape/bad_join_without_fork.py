# fault: the copy stream is joined but was never forked, so the capture is asked to wait for work outside it
# outcome: capture-error
import torch

copies = torch.cuda.Stream()
source = torch.ones(16, device="cuda")
target = torch.zeros(16, device="cuda")


def step():
    with torch.cuda.stream(copies):  # expect: stream-escape
        target.copy_(source)
    torch.cuda.current_stream().wait_stream(copies)
    return target * 2.0


for _ in range(3):
    step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        doubled = step()
    graph.replay()
    print("OUTCOME: ok", doubled[0].item())
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
