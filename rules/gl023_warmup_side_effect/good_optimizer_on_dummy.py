# right: weights and optimizer state are put back in place after the warm-up
# outcome: ok
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(6, 1).cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
start = [p.detach().clone() for p in model.parameters()]
x, y = torch.ones(8, 6, device="cuda"), torch.zeros(8, 1, device="cuda")  # placeholders, no batch was loaded yet


def train_step() -> torch.Tensor:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    opt.step()
    return loss.detach()


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        train_step()  # fine: undone below
torch.cuda.current_stream().wait_stream(side)
with torch.no_grad():
    for p, kept in zip(model.parameters(), start):
        p.copy_(kept)  # fine: in place; plain SGD has no state of its own
opt.zero_grad(set_to_none=True)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = train_step()

drift = max((p.detach() - kept).abs().max().item() for p, kept in zip(model.parameters(), start))
x.copy_(torch.randn(8, 6, device="cuda"))
y.copy_(torch.randn(8, 1, device="cuda"))
graph.replay()
print("OUTCOME:", "ok" if drift == 0 else "wrong-result", f"weights moved by {drift:.3f} before the first real batch")
