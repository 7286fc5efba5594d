# fault: one path leaves the function between capture_begin and capture_end, so the capture stays open
# outcome: capture-error
import torch


def record(graph: torch.cuda.CUDAGraph, grid: torch.Tensor, smooth: bool) -> torch.Tensor:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        (grid.roll(1, 0) + grid.roll(-1, 0)) * 0.5
        graph.capture_begin()  # expect: capture-misuse
        halo = grid.roll(1, 0) + grid.roll(-1, 0)
        if not smooth:
            return halo
        mean = halo * 0.5
        graph.capture_end()
    return mean


if __name__ == "__main__":
    grid = torch.arange(8.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    try:
        out = record(graph, grid, smooth=False)
        torch.cuda.synchronize()  # fine: after the function, no capture should be open here
        grid.fill_(3.0)
        graph.replay()
        total = out.sum().item()
        print("OUTCOME:", "ok" if total == 48.0 else "wrong-result", total)
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0])
