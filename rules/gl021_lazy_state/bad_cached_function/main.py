# fault: a cached helper in another file returns the warm-up's tensor, so the capture holds no work that follows the weights
# outcome: stale-result
import torch

from cosine import CosineHead


@torch.no_grad()
def main() -> float:
    torch.manual_seed(0)
    head = CosineHead(6, 3).cuda()
    rows = torch.randn(2, 6, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        head(rows)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scores = head(rows)
    head.weight.mul_(4.0)
    graph.replay()
    want = rows @ (head.weight / head.weight.norm(dim=1, keepdim=True)).t()
    return (scores - want).abs().max().item()


if __name__ == "__main__":
    gap = main()
    print("OUTCOME:", "ok" if gap < 1e-4 else "stale-result", f"off by {gap:.4f} after the weight was scaled")
