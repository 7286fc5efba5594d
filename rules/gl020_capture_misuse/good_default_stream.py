# right: capture_begin and capture_end lie inside a side-stream block
# outcome: ok
import torch

weights = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda")
prices = torch.ones(4, device="cuda")
graph = torch.cuda.CUDAGraph()
(weights * prices).cumsum(0)
torch.cuda.synchronize()
try:
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()  # fine: a side stream is current
        value = (weights * prices).cumsum(0)
        graph.capture_end()
    prices.fill_(2.0)
    graph.replay()
    total = value[-1].item()
    print("OUTCOME:", "ok" if total == 20.0 else "wrong-result", total)
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error).splitlines()[0])
