# fault: the window is a local of the function that captures and is freed when it returns; the graph goes on reading its block
# outcome: wrong-result
import torch


def make_smoother(block):
    window = torch.hann_window(block, device="cuda")  # expect: dangling-input
    static = torch.zeros(block, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            static * window
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        smooth = static * window
    return graph, static, smooth


if __name__ == "__main__":
    block = 1 << 20
    graph, static, smooth = make_smoother(block)
    later = [torch.full((block,), 50.0, device="cuda") for _ in range(6)]
    static.fill_(1.0)
    graph.replay()
    peak = smooth.max().item()
    print(f"OUTCOME: {'ok' if peak < 1.01 else 'wrong-result'} peak {peak:.2f} (want 1), {len(later)} later tensors")
