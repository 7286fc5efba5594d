"""Fidelity of the emulator on labelled programs.

    python benchmarks/fidelity.py FOLDER [FOLDER ...] [--every N]

Folders hold `bad_*.py` and `good_*.py` (or `*__bad.py`, `*__good.py`, or folders of these names with main.py).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch  # noqa: F401  (loaded before the forks)

from graphlint.runtime import worker  # noqa: F401
from graphlint.runtime.fidelity import Score, programs, score, table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    begun, scores = time.perf_counter(), list[Score]()
    for folder in options.folders:
        for program in list(programs(folder))[:: options.every]:
            scores.append(score(program))
            for line in table(scores[-1:])[3]:
                print(line, flush=True)
    fidelity, confirmed, false, _ = table(scores)
    spent = time.perf_counter() - begun
    print(f"{len(scores)} programs in {spent:.0f} s")
    print(f"fidelity {fidelity:.3f}, confirmed {confirmed:.3f}, false in good programs {false}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
