# fault: the captured block reads, prints and seeds, which belongs before it or behind the replay
# outcome: capture-error
import torch

torch.manual_seed(0)
prices = torch.ones(4, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        (prices * 2).sum()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
try:
    with torch.cuda.graph(graph):
        torch.cuda.manual_seed(7)  # for the noise
        total = (prices * 2).sum() + torch.rand((), device="cuda") * 0
        value = total.item()  # what is shown
        print(f"total {total:.1f}")
        torch.cuda.synchronize()
    prices.fill_(3.0)
    graph.replay()
    print("OUTCOME:", "ok" if value == 24.0 else "wrong-result")
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
