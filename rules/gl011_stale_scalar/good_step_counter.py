# right: the step number is a device tensor that the graph itself advances
# outcome: ok
import torch

SCALE = 1.0
step = torch.zeros((), device="cuda")
state = torch.ones(4, device="cuda")
start = state.clone()


def anneal():
    step.add_(1)
    level = SCALE / (1 + step)  # fine: a tensor; SCALE is a constant
    state.sub_(state * level)


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        anneal()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    for layer in range(1):  # fine: the loop is unrolled, `layer` is the same in every replay
        anneal()

step.zero_()
state.copy_(start)
want = 1.0
for index in range(1, 5):
    graph.replay()
    want -= want / (1 + index)
got = state[0].item()
print(f"OUTCOME: {'ok' if abs(got - want) < 1e-5 else 'stale-result'} {got:.4f} (want {want:.4f})")
