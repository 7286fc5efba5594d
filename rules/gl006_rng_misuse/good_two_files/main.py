# right: it draws on the device, dropout included
# outcome: ok
import torch
from augment import Augment


def main():
    torch.manual_seed(0)
    augment = Augment(0.3)
    x = torch.ones(64, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            augment(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = augment(x)
    results = []
    for _ in range(6):
        graph.replay()
        results.append(y.clone())
    peaks = {round(r.max().item(), 5) for r in results}
    return len(peaks) == 6, f"{len(peaks)} different gains in 6 replays"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "stale-result", note)
