# fault: the script deletes a captured input to save memory, and the graph reads the block that it gave back
# outcome: wrong-result
import torch

n = 1 << 20
prior = torch.full((n,), 0.5, device="cuda")
evidence = torch.ones(n, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        evidence * prior
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    posterior = evidence * prior

del prior  # expect: dangling-input
others = [torch.full((n,), -3.0, device="cuda") for _ in range(6)]
graph.replay()
value = posterior[0].item()
print(f"OUTCOME: {'ok' if value == 0.5 else 'wrong-result'} {value} (want 0.5) after {len(others)} new tensors")
