# right: the temperature stays a tensor; the value is read after the replay
# outcome: ok
import torch


def sharpen(scores):
    peak = scores.max()  # fine: a 0-dim tensor, nothing is read
    rows = scores.shape[0]  # fine: sizes live on the host
    return torch.softmax(scores / peak, -1) * rows


def main():
    scores = torch.rand(4, 16, device="cuda") + 0.5
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            sharpen(scores)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = sharpen(scores)
    scores.copy_(torch.rand(4, 16, device="cuda") + 0.5)
    graph.replay()
    top = out.max().item()  # fine: after the replay
    return torch.allclose(out, sharpen(scores)), f"top {top:.3f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        right, note = main()
        print("OUTCOME:", "ok" if right else "wrong-result", note)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
