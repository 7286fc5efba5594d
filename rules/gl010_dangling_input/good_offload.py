# right: a module goes to the CPU only before the capture, or when no graph of it is replayed any more
# outcome: ok
import torch
from torch import nn


def capture(encoder, pixels):
    with torch.no_grad():
        for _ in range(3):
            encoder(pixels)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            latent = encoder(pixels)
    return graph, latent


def main():
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256))
    teacher = nn.Linear(256, 256).cuda()
    encoder.cpu()  # fine: before the capture
    encoder.cuda()
    pixels = torch.randn(2, 256, device="cuda")
    graph, latent = capture(encoder, pixels)
    graph.replay()
    want = latent.clone()
    teacher.cpu()  # fine: not part of the graph
    decoder = [torch.full((256, 256), 20.0, device="cuda") for _ in range(32)]
    graph.replay()
    gap = (latent - want).abs().max().item()
    del graph
    encoder.cpu()  # fine: its graph is gone
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'wrong-result'} off by {gap:.1f} with {len(decoder)} decoder weights")


main()
