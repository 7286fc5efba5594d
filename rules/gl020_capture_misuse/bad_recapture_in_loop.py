# fault: one CUDAGraph object is captured once for each batch size; the second capture is refused
# outcome: capture-error
import torch

torch.manual_seed(0)
mix = torch.randn(6, 6, device="cuda")
rows = torch.zeros(8, 6, device="cuda")
pool = torch.cuda.graph_pool_handle()
graphs: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for size in (8, 4, 2):
        rows[:size] @ mix
torch.cuda.current_stream().wait_stream(side)

try:
    graph = torch.cuda.CUDAGraph()
    for size in (8, 4, 2):
        with torch.cuda.graph(graph, pool=pool):  # expect: capture-misuse
            mixed = rows[:size] @ mix
        graphs[size] = (graph, mixed)
    worst = 0.0
    for size in (2, 8, 4):
        batch = torch.randn(size, 6, device="cuda")
        rows[:size].copy_(batch)
        graphs[size][0].replay()
        worst = max(worst, (graphs[size][1] - batch @ mix).abs().max().item())
    print("OUTCOME:", "ok" if worst < 1e-4 else "wrong-result", f"worst gap {worst:.6f}")
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error).splitlines()[0])
