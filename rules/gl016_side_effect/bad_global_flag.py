# fault: a captured function toggles a global that decides which buffer the host reads next; it toggles only once
# outcome: wrong-result
import torch

front = 0
buffers = [torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")]
clock = torch.zeros((), device="cuda")


def render():
    global front
    clock.add_(1)
    for buffer in buffers:
        buffer.copy_(clock.expand(4))
    front = 1 - front  # expect: side-effect


for _ in range(4):
    render()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    render()
seen = []
for _ in range(4):
    graph.replay()
    seen.append(front)
print(f"OUTCOME: {'ok' if seen[0] != seen[1] else 'wrong-result'} buffers shown: {seen}, time {buffers[front][0].item()}")
