# fault: a monitoring thread reads a CUDA tensor while the main thread captures in "global" mode
# outcome: capture-error
import threading

import torch
from torch import nn

gauge = torch.zeros(1, device="cuda")
beat, stop = threading.Event(), threading.Event()


def monitor() -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not stop.wait(0.001):
            try:
                gauge.cpu()
            except RuntimeError:
                return
            finally:
                beat.set()


def main() -> str:
    torch.manual_seed(0)
    net = nn.Linear(4, 4).cuda().requires_grad_(False)
    x = torch.randn(2, 4, device="cuda")
    net(x)
    torch.cuda.synchronize()
    watcher = threading.Thread(target=monitor, daemon=True)
    watcher.start()
    beat.wait(5)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):  # expect: capture-thread
            beat.clear()
            y = net(x)
            beat.wait(5)  # a slow capture: the monitor runs meanwhile
            y = y + 1
    finally:
        stop.set()
        watcher.join()
    x.fill_(1.0)
    graph.replay()
    gap = (y - net(x) - 1).abs().max().item()
    return f"{'ok' if gap < 1e-5 else 'wrong-result'} off by {gap:.6f}"


if __name__ == "__main__":
    try:
        print("OUTCOME:", main())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
