"""Fixes copies of bad programs, checks that nothing is left to report, runs what is clean, and prints how it ended.

    python scripts/run_fixed.py [--backend emulate|cuda|none] [--jobs 2] [--output fixed.json] [--diff] [FOLDER ...]

A program is a file or a folder with a `main.py`; it is a bad one if its name says so (`bad_x.py`, `x__bad`), and it
prints `OUTCOME: ok` if it did no harm. All fixes are applied, the unsafe ones too, until nothing is left to fix.
`emulate` runs what is clean with `graphlint trace` on the CPU, `cuda` with plain Python on this machine's GPU.
Programs whose header says `# outcome: static-only` (they need several GPUs) are fixed and checked, not run.

Exit status 1 if a fixed program did not end `ok`, does not parse, lost a comment, or changes when it is fixed again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from graphlint.config import Config  # noqa: E402
from graphlint.engine import Report, check  # noqa: E402
from graphlint.fix import ROUNDS, Change, changes, parses, write  # noqa: E402
from graphlint.registry import Registry, load_rules  # noqa: E402

_BAD = re.compile(r"(^|_)bad(_|$)")
_HEADER = re.compile(r"^# outcome:\s*([\w-]+)", re.M)
_PRINTED = re.compile(r"^OUTCOME:\s*([\w-]+)(.*)", re.M)
_COMMENT = re.compile(r"#.*")


def programs(folders: list[Path]) -> Iterator[Path]:
    """The bad programs in the folders and one folder further down, in order."""
    for folder in folders:
        inside = sorted(folder.iterdir())
        further = [p for d in inside if d.is_dir() and not (d / "main.py").exists() for p in sorted(d.iterdir())]
        for path in (*inside, *further):
            program = path.suffix == ".py" or (path / "main.py").exists()
            if program and _BAD.search(path.stem):
                yield path


@cache
def registry() -> Registry:
    return load_rules()


def texts(path: Path) -> dict[str, str]:
    """Every Python file of a program: its name in the program, its text."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return {str(file.relative_to(path.parent)): file.read_text(encoding="utf-8") for file in files}


def fix(path: Path) -> tuple[Report, int, list[str]]:
    """Fixes a program in place: what is reported then, how often something was changed, and what went wrong."""
    failed: list[str] = []
    for count in range(ROUNDS + 1):
        report = check([path], Config(root=path.parent), registry=registry())
        made = list(changes(report.findings, report.digests, unsafe=True))
        failed += [str(change) for change in made if not isinstance(change, Change)]
        good = [change for change in made if isinstance(change, Change)]
        if not good:
            return report, count, failed
        for change in good:
            write(change)
    return report, count, [*failed, "the fixes do not come to an end"]


def lost(old: str, new: str) -> list[str]:
    """Comments that the fixed text lacks."""
    return list((Counter(_COMMENT.findall(old)) - Counter(_COMMENT.findall(new))).elements())


def difference(before: dict[str, str], after: dict[str, str]) -> str:
    from difflib import unified_diff

    rows: list[str] = []
    for name, text in before.items():
        rows += unified_diff(text.splitlines(True), after[name].splitlines(True), f"a/{name}", f"b/{name}", n=2)
    return "".join(rows)


def run(path: Path, backend: str, timeout: float, folder: Path) -> tuple[str, str]:
    """The outcome that a program prints, and the rest of that line or the last line of what it complained."""
    main = path / "main.py" if path.is_dir() else path
    command = [sys.executable, main.name]
    if backend == "emulate":
        trace = [sys.executable, "-m", "graphlint", "trace", "--backend", "emulate", "--output-format", "json"]
        command = [*trace, "--output", str(folder / "trace.json"), main.name]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    try:
        done = subprocess.run(
            command, cwd=main.parent, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return "hang", f"no answer in {timeout:.0f} s"
    printed = _PRINTED.findall(done.stdout + done.stderr)
    if not printed:
        return "nothing", f"exit {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1][:160]}"
    return printed[-1][0], printed[-1][1].strip()[:160]


def examine(path: Path, backend: str, timeout: float) -> dict[str, Any]:
    """One program: the rules that found something, whether it is clean when fixed, and how it ends then."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy = folder / "program" / path.name
        if path.is_dir():
            shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            copy.parent.mkdir()
            shutil.copy(path, copy)
        before = texts(copy)
        first = check([copy], Config(root=copy.parent), registry=registry())
        report, rounds, failed = fix(copy)
        after = texts(copy)
        row: dict[str, Any] = {
            "program": path.as_posix(),
            "rules": sorted({finding.rule for finding in first.findings}),
            "left": sorted({finding.rule for finding in report.findings}),
            "rounds": rounds,
            "clean": bool(first.findings) and not report.findings,
            "failed": failed + [f"{n} does not parse" for n, text in after.items() if not parses(text)],
            "lost": [comment for n, text in before.items() for comment in lost(text, after[n])],
            "diff": difference(before, after),
            "outcome": "",
            "detail": "",
        }
        fix(copy)
        row["stable"] = texts(copy) == after
        header = _HEADER.search(before.get(path.name, before.get(f"{path.name}/main.py", "")))
        if row["clean"] and header is not None and header.group(1) == "static-only":
            row["outcome"] = "static-only"
        elif row["clean"] and backend != "none":
            row["outcome"], row["detail"] = run(copy, backend, timeout, folder)
        return row


def sound(row: dict[str, Any], backend: str) -> bool:
    """Whether no fix of this program did harm."""
    ended = not row["clean"] or backend == "none" or row["outcome"] in ("ok", "static-only")
    return ended and row["stable"] and not row["lost"] and not row["failed"]


def show(row: dict[str, Any], diff: bool) -> None:
    """One line of the table, what went wrong, and what was changed."""
    state = "clean" if row["clean"] else "silent" if not row["rules"] else "left: " + " ".join(row["left"])
    name = "/".join(Path(row["program"]).parts[-2:])
    print(f"{name}: {' '.join(row['rules'])} | {state} | {row['outcome']} {row['detail']}", flush=True)
    for note in (
        *row["failed"],
        *(f"lost {text}" for text in row["lost"]),
        *(["not stable"] if not row["stable"] else []),
    ):
        print(f"    {note}")
    if diff and row["diff"]:
        print(row["diff"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--backend", choices=["emulate", "cuda", "none"], default="emulate")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=90)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--diff", action="store_true", help="show what was changed")
    options = parser.parse_args()
    chosen = [p for p in programs(options.folders or [ROOT / "rules"]) if options.only in p.as_posix()]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        waiting = [pool.submit(examine, path.resolve(), options.backend, options.timeout) for path in chosen]
        rows = []
        for path, done in zip(chosen, waiting, strict=True):
            rows.append({**done.result(), "program": path.as_posix()})
            show(rows[-1], options.diff)
    found = [row for row in rows if row["rules"]]
    clean = [row for row in rows if row["clean"]]
    ran = [row for row in clean if row["outcome"] not in ("", "static-only")]
    report = {
        "backend": options.backend,
        "date": datetime.date.today().isoformat(),
        "programs": len(rows),
        "reported": len(found),
        "clean": len(clean),
        "ran": len(ran),
        "ok": sum(row["outcome"] == "ok" for row in ran),
        "rows": rows,
    }
    if options.backend == "cuda":
        import torch

        report.update(device=torch.cuda.get_device_name(), torch=torch.__version__)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    bad = [row for row in rows if not sound(row, options.backend)]
    print(
        f"{report['programs']} programs, {report['reported']} reported, {report['clean']} clean when fixed; "
        f"{report['ran']} ran, {report['ok']} ended ok; {len(bad)} to look at"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
