# right: gradients are own zeroed tensors before the first micro-batch, so the graph's buffer is added to them
# outcome: ok
import torch
from torch import nn


def make(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 5), nn.SiLU(), nn.Linear(5, 1)).cuda()


def train(model, opt, chunks):
    for param in model.parameters():
        param.grad = torch.zeros_like(param)  # fine: memory of its own
    for chunk in chunks:
        (model(chunk).mean() / len(chunks)).backward()
    total = model[0].weight.grad.clone()
    opt.step()
    opt.zero_grad()  # fine: the next call gives the parameters new zeroed gradients
    return total


if __name__ == "__main__":
    reference, model = make(1), make(1)
    chunks = [torch.randn(3, 5, device="cuda") * (k + 1) for k in range(3)]
    for chunk in chunks:
        (reference(chunk).mean() / len(chunks)).backward()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(3, 5, device="cuda"),))
    got = train(graphed, torch.optim.SGD(graphed.parameters(), lr=0.1), chunks)
    gap = (got - reference[0].weight.grad).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} summed gradient off by {gap:.4f}")
