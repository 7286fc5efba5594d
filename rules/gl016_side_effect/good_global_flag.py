# right: the flag is toggled by the code that replays
# outcome: ok
import torch

front = 0
buffers = [torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")]
clock = torch.zeros((), device="cuda")


def render():
    clock.add_(1)
    index = 0
    for buffer in buffers:
        buffer.copy_(clock.expand(4) + index)
        index += 1  # fine: a local number, the loop is unrolled in the capture


for _ in range(4):
    render()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    render()
seen = []
for _ in range(4):
    graph.replay()
    front = 1 - front  # fine: outside the capture
    seen.append(front)
print(f"OUTCOME: {'ok' if seen == [1, 0, 1, 0] else 'wrong-result'} shown: {seen}, time {buffers[front][0].item()}")
