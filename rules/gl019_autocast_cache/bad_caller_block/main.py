# fault: the caller's autocast block spans an eager preview and the capture that another module makes
# outcome: stale-result
import torch
from torch import nn

from ranker import GraphedRanker, preview


def main() -> None:
    torch.manual_seed(0)
    net = nn.Linear(12, 5).cuda()
    queries = torch.randn(3, 12, device="cuda")
    ranker = GraphedRanker(net, queries)
    with torch.amp.autocast("cuda", dtype=torch.bfloat16):  # expect: autocast-cache
        preview(net, queries)
        ranker.capture()
    with torch.no_grad():
        net.weight.neg_()
    got = ranker.rank(queries)
    with torch.no_grad(), torch.amp.autocast("cuda", dtype=torch.bfloat16):
        gap = (got - net(queries)).abs().max().item()
    print("OUTCOME:", "ok" if gap < 0.05 else "stale-result", f"off by {gap:.3f} after the weight changed sign")


if __name__ == "__main__":
    main()
