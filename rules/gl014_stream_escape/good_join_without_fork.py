# right: the copy stream first waits for the current stream, then the current stream for it
# outcome: ok
import torch

copies = torch.cuda.Stream()
source = torch.ones(16, device="cuda")
target = torch.zeros(16, device="cuda")


def step():
    copies.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(copies):  # fine: forked and joined
        target.copy_(source)
    torch.cuda.current_stream().wait_stream(copies)
    return target * 2.0


for _ in range(3):
    step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    doubled = step()
with torch.cuda.stream(copies):  # fine: not captured, and awaited below
    source.fill_(4.0)
torch.cuda.current_stream().wait_stream(copies)
graph.replay()
value = doubled[0].item()
print(f"OUTCOME: {'ok' if value == 8.0 else 'stale-result'} {value} (want 8.0)")
