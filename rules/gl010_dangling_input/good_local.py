# right: everything that the graph reads lives as long as the graph: in a closure or in the object that is returned
# outcome: ok
import torch


def make_smoother(block):
    window = torch.hann_window(block, device="cuda")  # fine: the closure that replays holds it
    static = torch.zeros(block, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            static * window
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        gain = torch.full((), 1.0, device="cuda")  # fine: made in the capture, the graph's pool owns it
        smooth = static * window * gain
    scratch = static.clone()
    del scratch  # fine: no captured code reads it

    def run(samples):
        assert samples.shape == window.shape
        static.copy_(samples)
        graph.replay()
        return smooth.clone()

    return run


if __name__ == "__main__":
    block = 1 << 20
    smooth = make_smoother(block)
    later = [torch.full((block,), 50.0, device="cuda") for _ in range(6)]
    peak = smooth(torch.ones(block, device="cuda")).max().item()
    print(f"OUTCOME: {'ok' if peak < 1.01 else 'wrong-result'} peak {peak:.2f} (want 1), {len(later)} later tensors")
