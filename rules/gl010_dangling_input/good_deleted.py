# right: only names that the graph does not need are deleted while it is in use
# outcome: ok
import torch

n = 1 << 20
prior = torch.full((n,), 0.5, device="cuda")
evidence = torch.ones(n, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        warm = evidence * prior
torch.cuda.current_stream().wait_stream(side)
del warm  # fine: an output of the warm-up

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    odds = evidence * 2.0
    posterior = odds * prior
del odds  # fine: made in the capture, its memory belongs to the graph's pool
keep = prior
del prior  # fine: `keep` still holds the same memory

others = [torch.full((n,), -3.0, device="cuda") for _ in range(6)]
graph.replay()
value = posterior[0].item()
del graph
del evidence  # fine: no graph is left that reads it
print(f"OUTCOME: {'ok' if value == 1.0 else 'wrong-result'} {value} (want {2 * keep[0].item()}) after {len(others)} new tensors")
