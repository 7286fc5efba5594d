"""Fixes, on the rules' bad examples and on programs of their own: the finding goes, no other comes, twice is once.

What is fixed whole also runs: emulated, with the outcome `ok` that its good twin has. Of the examples a sample by
default; GRAPHLINT_FIXED=all runs each (many minutes), and so does scripts/run_fixed.py.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphlint.config import Config
from graphlint.engine import Report, check
from graphlint.finding import Finding
from graphlint.fix import ROUNDS, Change, changes, write
from graphlint.registry import load_rules
from tests.helpers import environment

ROOT = Path(__file__).parent.parent
REGISTRY = load_rules()
#: Programs with several faults, or other spellings than the examples have; each is mended wholly.
OWN = sorted((ROOT / "tests" / "fixes").glob("bad_*.py"))
EXAMPLES = [*sorted(p for p in (ROOT / "rules").glob("gl*/bad_*") if p.suffix in (".py", "")), *OWN]
#: Examples that the fixes of their rules mend wholly; a list, so that one that stops to work is noticed.
LISTED = (ROOT / "tests" / "mended.txt").read_text(encoding="utf-8").split()
RUN = LISTED if os.environ.get("GRAPHLINT_FIXED") == "all" else LISTED[::8]
MENDED = [*LISTED, *(f"fixes/{path.name}" for path in OWN)]


def name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def run(path: Path) -> Report:
    return check([path], Config(root=path.parent), registry=REGISTRY)


def copied(example: Path, folder: Path) -> Path:
    target = folder / example.name
    if example.is_dir():
        shutil.copytree(example, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(example, target)
    return target


def rounds(path: Path, report: Report) -> Iterator[tuple[list[Change], Report]]:
    """The changes of each round that changes something, and what is reported after it."""
    for _ in range(ROUNDS + 1):
        made = list(changes(report.findings, report.digests, unsafe=True))
        assert all(isinstance(change, Change) for change in made), made
        if not made:
            return
        for change in made:
            assert isinstance(change, Change)
            write(change)
        report = run(path)
        yield [c for c in made if isinstance(c, Change)], report


def rules_of(findings: tuple[Finding, ...]) -> set[str]:
    return {f.rule for f in findings}


@pytest.mark.parametrize("example", EXAMPLES, ids=name)
def test_fixes_end_and_bring_no_new_finding(example: Path, tmp_path: Path) -> None:
    path = copied(example, tmp_path)
    first = run(path)
    history = list(rounds(path, first))
    assert len(history) <= 6, "fixes that undo or repeat each other"
    last = history[-1][1] if history else first
    assert rules_of(last.findings) <= rules_of(first.findings)
    if history:
        assert len(last.findings) <= len(first.findings)
    if name(example) in MENDED:
        assert history and not last.findings, "this example was mended wholly before"


@pytest.mark.parametrize("example", [*(ROOT / "rules" / entry for entry in RUN), *OWN], ids=name)
def test_what_is_mended_runs(example: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = copied(example, tmp_path)
    list(rounds(path, run(path)))
    main = path / "main.py" if path.is_dir() else path
    text = main.read_text(encoding="utf-8")
    if "static-only" in text or "OUTCOME" not in text:
        pytest.skip("this example needs what no emulation has")
    command = [sys.executable, "-m", "graphlint", "trace", "--backend", "emulate", "--output-format", "json"]
    made = subprocess.run(
        [*command, "--output", str(tmp_path / "out.json"), str(main)],
        capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment(tmp_path),
    )  # fmt: skip
    outcomes = re.findall(r"OUTCOME: ([\w-]+)", made.stdout + made.stderr)
    assert outcomes[-1:] == ["ok"], (made.stdout + made.stderr)[-2000:]
