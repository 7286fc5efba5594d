# right: in eval mode batch norm only reads its statistics, so a warm-up on zeros changes nothing
# outcome: ok
import torch
from torch import nn


@torch.no_grad()
def main() -> float:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).cuda().eval()
    before = net[1].running_mean.clone()
    rows = torch.zeros(8, 4, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net(rows)  # fine: eval mode
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = net(rows)
    rows.normal_()
    graph.replay()
    return (net[1].running_mean - before).abs().max().item() + (out - net(rows)).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-5 else "wrong-result", f"{gap:.6f}")
