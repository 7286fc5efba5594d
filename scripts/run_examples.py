"""Runs every example under rules/ on this machine's GPU and compares what it prints with what its header says.

    python scripts/run_examples.py [--jobs 8] [--output docs/examples_gpu.json] [FOLDER ...]

Each example runs in a process of its own. `static-only` ones (they need NCCL or several GPUs) are counted, not run.
Exit status 1 if an outcome differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import re
import subprocess
import sys
from pathlib import Path

_HEADER = re.compile(r"^# outcome:\s*([\w-]+)", re.M)
_PRINTED = re.compile(r"^OUTCOME:\s*([\w-]+)(.*)", re.M)


def examples(folders: list[Path]) -> list[Path]:
    """Files and folders named `bad_*` and `good_*`, one folder down."""
    found = [
        unit for top in folders for rule in sorted(top.iterdir()) if rule.is_dir() for unit in sorted(rule.iterdir())
    ]
    return [unit for unit in found if re.match(r"(bad|good)_", unit.name)]


def run(unit: Path, timeout: float) -> dict[str, str]:
    """What one example prints: {"example", "expected", "printed", "detail"}."""
    script = unit / "main.py" if unit.is_dir() else unit
    header = _HEADER.search(script.read_text(encoding="utf-8"))
    expected = header.group(1) if header else "no header"
    row = {"example": unit.as_posix(), "expected": expected, "printed": expected, "detail": "not run"}
    if expected == "static-only":
        return row
    command = [sys.executable, script.name]
    try:
        done = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        return {**row, "printed": "hang", "detail": f"no answer in {timeout:.0f} s"}
    printed = _PRINTED.findall(done.stdout)
    if not printed:
        last = (done.stderr.strip().splitlines() or [""])[-1]
        return {**row, "printed": "nothing", "detail": f"exit {done.returncode}: {last[:160]}"}
    return {**row, "printed": printed[-1][0], "detail": printed[-1][1].strip()[:160]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("rules")])
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    import torch

    units = examples(options.folders or [Path("rules")])
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda unit: run(unit, options.timeout), units))
    wrong = [row for row in rows if row["expected"] != row["printed"]]
    for row in wrong:
        print(f"{row['example']}: header {row['expected']}, printed {row['printed']} {row['detail']}")
    report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "examples": len(rows),
        "run": sum(row["expected"] != "static-only" for row in rows),
        "agree": len(rows) - len(wrong),
        "rows": rows,
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(
        f"{len(rows)} examples, {report['run']} run, {len(wrong)} differ: {report['device']}, torch {report['torch']}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
