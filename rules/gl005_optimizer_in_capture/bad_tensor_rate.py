# fault: SGD reads a tensor learning rate on the host unless it is fused
# outcome: capture-error
import torch


def main():
    weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
    rate = torch.tensor(0.5, device="cuda")
    optimizer = torch.optim.SGD([weight], lr=rate)
    weight.grad = torch.ones_like(weight)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        optimizer.step()  # expect: optimizer-in-capture
    before = weight.detach().clone()
    rate.fill_(0.25)
    graph.replay()
    moved = (before - weight.detach())[0].item()
    return abs(moved - 0.25) < 1e-6, f"moved {moved:.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
