# fault: one pinned staging buffer is refilled for the next replay while its asynchronous copy still waits behind the last one
# outcome: wrong-result
import torch

staging = torch.empty(1024, pin_memory=True)
static = torch.zeros(1024, device="cuda")
graph = torch.cuda.CUDAGraph()


def work() -> torch.Tensor:
    torch.cuda._sleep(20_000_000)
    return static * 2


work()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    doubled = work()

copied = torch.cuda.Event()
sums = []
for value in (1.0, 2.0, 3.0, 4.0):
    staging.fill_(value)  # expect: pinned-race
    static.copy_(staging, non_blocking=True)  # fine: pinned, and outside the capture
    copied.record()
    graph.replay()
    sums.append(doubled.sum())  # fine: a new tensor, computed before the next replay

got = [total.item() / 1024 for total in sums]
print("OUTCOME:", "ok" if got == [2.0, 4.0, 6.0, 8.0] else "wrong-result", got)
