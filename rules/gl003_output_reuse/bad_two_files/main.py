# fault: the engine hands out its static output, which is documented; this caller collects several of them
# outcome: wrong-result
import torch
from engine import Engine


def harvest(engine, signals):
    kept = {}
    for number, signal in enumerate(signals):
        spectrum = engine.run(signal)
        if number % 2 == 0:
            kept[number] = spectrum  # expect: output-reuse
    return kept


def main():
    engine = Engine(16)
    signals = torch.randn(4, 16, device="cuda")
    kept = harvest(engine, signals)
    gap = max((kept[i] - engine.power(signals[i])).abs().max().item() for i in kept)
    return gap < 1e-4, f"off by {gap:.4f}"


if __name__ == "__main__":
    torch.manual_seed(0)
    right, note = main()
    print("OUTCOME:", "ok" if right else "wrong-result", note)
