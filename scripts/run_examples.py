"""Runs every example under rules/ on this machine's GPU and compares what it prints with what its header says.

    python scripts/run_examples.py [--jobs 8] [--output docs/examples_gpu.json] [FOLDER ...]
    python scripts/run_examples.py --two-gpus

Each example runs in a process of its own. `static-only` ones (they need NCCL or several GPUs) are counted, not run;
with `--two-gpus` those whose header says `# outcome on two GPUs:` are run instead, one after the other by `torchrun`.
Exit status 1 if an outcome differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

_HEADER = re.compile(r"^# outcome:\s*([\w-]+)", re.M)
_TWO_GPUS = re.compile(r"^# outcome on two GPUs:\s*([\w-]+)", re.M)
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
    return row | outcome([sys.executable, script.name], script.parent, timeout)


def run_on_two(unit: Path, timeout: float) -> dict[str, str] | None:
    """The same by `torchrun` on two GPUs; None for an example that does not say what comes of it there."""
    script = unit / "main.py" if unit.is_dir() else unit
    header = _TWO_GPUS.search(script.read_text(encoding="utf-8"))
    if not header:
        return None
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", script.name]
    row = {"example": unit.as_posix(), "expected": header.group(1)}
    return row | outcome(launcher, script.parent, timeout)


def outcome(command: list[str], folder: Path, timeout: float) -> dict[str, str]:
    """{"printed", "detail"} of one command: "hang" without an answer in `timeout` s, "nothing" without an OUTCOME."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            said, errors = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # a launcher's ranks as well
            return {"printed": "hang", "detail": f"no answer in {timeout:.0f} s"}
    printed = _PRINTED.findall(said)
    if not printed:
        last = (errors.strip().splitlines() or [""])[-1]
        return {"printed": "nothing", "detail": f"exit {process.returncode}: {last[:160]}"}
    return {"printed": printed[-1][0], "detail": printed[-1][1].strip()[:160]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=[Path("rules")])
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--two-gpus", action="store_true", help="run only what needs two GPUs")
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    import torch

    units = examples(options.folders or [Path("rules")])
    if options.two_gpus:
        rows = [row for unit in units if (row := run_on_two(unit, options.timeout))]
    else:
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
