# fault: the noise level is computed from a Python step number; every replay uses the one of the capture
# outcome: stale-result
import torch

step = 0
state = torch.ones(4, device="cuda")
start = state.clone()


def anneal():
    level = 1.0 / (1 + step)
    state.sub_(state * level)  # expect: stale-scalar


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        anneal()
torch.cuda.current_stream().wait_stream(side)

step = 1
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    anneal()

state.copy_(start)
want = 1.0
for step in range(1, 5):
    graph.replay()
    want -= want / (1 + step)
got = state[0].item()
print(f"OUTCOME: {'ok' if abs(got - want) < 1e-5 else 'stale-result'} {got:.4f} (want {want:.4f})")
