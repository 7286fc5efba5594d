# right: the capture is entered with a with statement
# outcome: ok
import torch

torch.manual_seed(0)
points = torch.randn(20, 3, device="cuda")
centre = torch.zeros(3, device="cuda")
(points - centre).square().sum(-1)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
try:
    capture = torch.cuda.graph(graph)  # fine: entered on the next line
    with capture:
        dist = (points - centre).square().sum(-1)
    centre.fill_(1.0)
    graph.replay()
    gap = (dist - (points - 1).square().sum(-1)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"off by {gap:.6f}")
except RuntimeError as error:
    print("OUTCOME: capture-error", str(error).splitlines()[0])
