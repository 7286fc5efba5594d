# right: each output is cloned, outside the compiled function, or consumed before the next call
# outcome: ok
import torch


@torch.compile(mode="reduce-overhead")
def octave(wave, k):
    return torch.sin(wave * k) / k


@torch.no_grad()
def spectrum(wave, count):
    layers, total = [], torch.zeros_like(wave)
    for i in range(count):
        torch.compiler.cudagraph_mark_step_begin()
        layer = octave(wave, torch.full_like(wave, float(i + 1)))
        total += layer  # fine: consumed before the next call
        layers.append(layer.clone())  # fine: a copy outside the compiled function
    return torch.stack(layers).sum(0), total


if __name__ == "__main__":
    wave = torch.linspace(0.0, 3.0, 64, device="cuda")
    want = sum(torch.sin(wave * k) / k for k in range(1, 6))
    gap = max((got - want).abs().max().item() for got in spectrum(wave, 5))
    print(f"OUTCOME: {'ok' if gap < 1e-4 else 'wrong-result'} off by {gap:.4f}")
