# fault: capture_begin is called on the default stream, which cannot be captured
# outcome: capture-error
import torch

weights = torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda")
prices = torch.ones(4, device="cuda")
graph = torch.cuda.CUDAGraph()
(weights * prices).cumsum(0)
torch.cuda.synchronize()
try:
    graph.capture_begin()  # expect: capture-misuse
    value = (weights * prices).cumsum(0)
    graph.capture_end()
    prices.fill_(2.0)
    graph.replay()
    total = value[-1].item()
    print("OUTCOME:", "ok" if total == 20.0 else "wrong-result", total)
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error).splitlines()[0])
