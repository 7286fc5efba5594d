# fault: the encoder is moved to the CPU after its graph was captured; the graph still reads the GPU memory of its weights
# outcome: wrong-result
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
    encoder = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)).cuda()
    pixels = torch.randn(2, 256, device="cuda")
    graph, latent = capture(encoder, pixels)
    graph.replay()
    want = latent.clone()
    encoder.cpu()  # expect: dangling-input
    decoder = [torch.full((256, 256), 20.0, device="cuda") for _ in range(32)]
    graph.replay()
    gap = (latent - want).abs().max().item()
    print(f"OUTCOME: {'ok' if gap < 1e-3 else 'wrong-result'} off by {gap:.1f} with {len(decoder)} decoder weights")


main()
