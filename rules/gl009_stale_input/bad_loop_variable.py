# fault: the loop variable takes the name of the captured tensor, so the graph never sees the later samples
# outcome: stale-result
import torch

torch.manual_seed(0)
weight = torch.randn(6, 6, device="cuda")
sample = torch.randn(2, 6, device="cuda")
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    for _ in range(3):
        torch.tanh(sample @ weight)
torch.cuda.current_stream().wait_stream(stream)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    score = torch.tanh(sample @ weight)

queue = [torch.randn(2, 6, device="cuda") for _ in range(4)]
worst = 0.0
for sample in queue:  # expect: stale-input
    graph.replay()
    worst = max(worst, (score - torch.tanh(sample @ weight)).abs().max().item())
print(f"OUTCOME: {'ok' if worst < 1e-4 else 'stale-result'} worst gap {worst:.3f}")
