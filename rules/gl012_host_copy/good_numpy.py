# right: the table is moved to the GPU once, before the capture
# outcome: ok
import numpy as np
import torch

GAMMA = 2.2
CURVE = torch.from_numpy(np.linspace(0.0, 1.0, 16, dtype=np.float32) ** GAMMA).cuda()  # fine: at import


def correct(pixels):
    limit = np.iinfo(np.int16).max  # fine: a host number, nothing goes to the GPU
    return CURVE[pixels].clamp_max(float(limit))


if __name__ == "__main__":
    pixels = torch.arange(16, device="cuda")
    for _ in range(3):
        correct(pixels)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = correct(pixels)
    graph.replay()
    print(f"OUTCOME: {'ok' if torch.equal(out, CURVE) else 'wrong-result'} {out.sum().item():.3f}")
