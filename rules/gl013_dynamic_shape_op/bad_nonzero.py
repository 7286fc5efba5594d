# fault: positions of events are looked up with nonzero and one-argument where, whose sizes depend on the data
# outcome: capture-error
import torch


def onsets(signal, threshold):
    loud = signal > threshold
    first = loud.nonzero()  # expect: dynamic-shape-op
    quiet = torch.where(signal < -threshold)  # expect: dynamic-shape-op
    spots = torch.argwhere(loud)  # expect: dynamic-shape-op
    return first.sum() + quiet[0].sum() + spots.sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    signal = torch.randn(32, device="cuda")
    for _ in range(3):
        onsets(signal, 0.5)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            result = onsets(signal, 0.5)
        graph.replay()
        print("OUTCOME: ok", result.item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
