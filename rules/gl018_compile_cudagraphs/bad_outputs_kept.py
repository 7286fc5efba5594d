# fault: outputs of a function compiled with CUDA graphs are collected over several calls; each call reclaims the earlier ones
# outcome: capture-error
import torch


@torch.compile(mode="reduce-overhead")
def octave(wave, k):
    return torch.sin(wave * k) / k


@torch.no_grad()
def spectrum(wave, count):
    layers = []
    for i in range(count):
        layers.append(octave(wave, torch.full_like(wave, float(i + 1))))  # expect: compile-cudagraphs
    return torch.stack(layers).sum(0)


if __name__ == "__main__":
    wave = torch.linspace(0.0, 3.0, 64, device="cuda")
    want = sum(torch.sin(wave * k) / k for k in range(1, 6))
    try:
        gap = (spectrum(wave, 5) - want).abs().max().item()
        print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.4f}")
    except RuntimeError as error:
        print("OUTCOME: capture-error", str(error).splitlines()[0][:120])
