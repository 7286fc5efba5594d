# fault: the look-up table comes from numpy inside the captured function
# outcome: capture-error
import numpy as np
import torch

GAMMA = 2.2


def correct(pixels):
    curve = np.linspace(0.0, 1.0, 16, dtype=np.float32) ** GAMMA
    table = torch.from_numpy(curve).to(pixels.device)  # expect: host-copy
    return table[pixels]


if __name__ == "__main__":
    pixels = torch.arange(16, device="cuda")
    for _ in range(3):
        correct(pixels)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            out = correct(pixels)
        graph.replay()
        print("OUTCOME: ok", out.sum().item())
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error.__context__ or error).splitlines()[0])
