# right: the kept values are clones; what is used before the next replay needs none
# outcome: ok
import torch


def trajectory(steps):
    """Iterates a map and keeps the whole path."""
    point = torch.full((4,), 0.4, device="cuda")

    def logistic():
        return 3.7 * point * (1.0 - point)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            logistic()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        following = logistic()
    path, total = [], torch.zeros(4, device="cuda")
    for _ in range(steps):
        graph.replay()
        total += following  # fine: consumed before the next replay
        path.append(following.clone())
        point.copy_(following)  # fine: copied into another buffer
    return torch.stack(path), total


def main():
    path, total = trajectory(5)
    point, want = torch.full((4,), 0.4, device="cuda"), []
    for _ in range(5):
        point = 3.7 * point * (1.0 - point)
        want.append(point)
    same = torch.allclose(path, torch.stack(want), atol=1e-5)
    return same and torch.allclose(total, path.sum(0), atol=1e-5), f"{path[0, 0].item():.4f} is {want[0][0].item():.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
