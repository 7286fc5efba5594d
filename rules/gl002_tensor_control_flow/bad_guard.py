# fault: a captured loss checks itself for NaN with an if, and asserts that its targets are in range
# outcome: capture-error
import torch


def robust_loss(pred, target):
    assert pred.shape == target.shape and pred.dim() == 2  # fine: metadata
    assert (target >= 0).all(), "negative target"  # expect: tensor-control-flow
    loss = (pred - target).square().mean()
    if loss.isnan():  # expect: tensor-control-flow
        loss = loss.new_zeros(())
    return loss


def main():
    pred, target = torch.randn(8, 3, device="cuda"), torch.rand(8, 3, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            robust_loss(pred, target)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = robust_loss(pred, target)
    target.uniform_()
    graph.replay()
    return torch.allclose(loss, robust_loss(pred, target)), f"{loss.item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
