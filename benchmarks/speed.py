"""How fast graphlint is on whole trees, beside what parsing alone costs, in one run on one machine.

    python benchmarks/speed.py FOLDER [FOLDER ...] [--output docs/speed.json]

For each folder: CPU seconds and peak memory of `graphlint check --no-cache` as a whole process, of `ast.parse` over all
its files, and of LibCST over every 20th file, scaled. Then a file of 40 lines with one finding, whole process, wall.
The folders used for the figures in the docs are the unpacked wheels of transformers 5.17.0 and sglang 0.5.23
(`pip download --no-deps NAME==VERSION`).
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

_SMALL = """import torch
from torch import nn


class Step(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        y = self.norm(self.proj(x))
        if y.abs().max() > 10:
            y = y.clamp(-10, 10)
        return y


class Runner:
    def __init__(self, step, rows, dim):
        self.step = step
        self.x = torch.zeros(rows, dim, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(3):
                step(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.out = step(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.out.clone()


runner = Runner(Step(16).cuda(), 4, 16)
print(runner(torch.randn(4, 16, device="cuda")).shape)
"""


def whole_process(arguments: list[str], folder: Path) -> dict[str, float]:
    """CPU and wall seconds and peak MB of one graphlint process, the system's own accounting."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "graphlint", "check", "--no-cache", "--output-format", "json", *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    report = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    found = json.loads(report)
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - begun,
        "peak_mb": usage.ru_maxrss / 1024,
        "findings": len(found["findings"]),
        "status": os.waitstatus_to_exitcode(status),
    }


def parsed(files: list[Path], every: int, library: str) -> float:
    """CPU seconds to parse all `files`, told from every n-th."""
    import libcst

    begun = time.process_time()
    for path in files[::every]:
        data = path.read_bytes()
        try:
            if library == "ast":
                ast.parse(data)
            else:
                libcst.parse_module(data)
        except (SyntaxError, ValueError, libcst.ParserSyntaxError):
            continue
    return (time.process_time() - begun) * len(files) / max(1, len(files[::every]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for folder in options.folders:
        files = sorted(folder.rglob("*.py"))
        lines = sum(path.read_bytes().count(b"\n") for path in files)
        own = whole_process(["."], folder)
        row = {
            "corpus": folder.name,
            "files": len(files),
            "lines": lines,
            "graphlint": own,
            "ast_cpu": parsed(files, 1, "ast"),
            "libcst_cpu": parsed(files, 20, "libcst"),
        }
        rows.append(row)
        print(
            f"{folder.name}: {len(files)} files, {lines} lines; graphlint {own['cpu']:.1f} CPU s,"
            f" {own['wall']:.1f} s wall, {own['peak_mb']:.0f} MB; ast.parse {row['ast_cpu']:.1f} s;"
            f" LibCST {row['libcst_cpu']:.0f} s; {own['findings']} findings",
            flush=True,
        )
    with tempfile.TemporaryDirectory() as name:
        Path(name, "small.py").write_text(_SMALL, encoding="utf-8")
        small = [whole_process(["small.py"], Path(name)) for _ in range(7)]
    walls = sorted(run["wall"] for run in small)
    print(f"a file of {_SMALL.count(chr(10))} lines: {walls[3]:.2f} s wall (median of 7)")
    report = {
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "rows": rows,
        "small_wall_median": walls[3],
        "small_findings": small[0]["findings"],
        "peak_mb_of_this_process": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
