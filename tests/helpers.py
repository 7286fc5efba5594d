"""What several tests share: a rule of their own, files to check, and the command line as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RULE = """
from collections.abc import Iterator

from graphlint.fact import HostRead
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule


@rule("USR001", "host-read", "error", "a host read of a tensor inside a capture")
def check(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, HostRead):
            yield Problem(fact.at, f"`{fact.text}` makes the host wait", region.way(fact))
"""

CAPTURE = """\
import torch

x = torch.ones(8, device="cuda")
g = torch.cuda.CUDAGraph()
(x * 2).sum()
with torch.cuda.graph(g):
    total = (x * 2).sum()
    print(total.item())
g.replay()
"""


def rule_folder(where: Path, text: str = RULE) -> Path:
    """A folder with one rule, `USR001[host-read]`, that reports every host read in a capture."""
    folder = where / "own_rules" / "usr001_host_read"
    folder.mkdir(parents=True)
    (folder / "rule.py").write_text(text, encoding="utf-8")
    return folder.parent


def environment(home: Path, **more: str) -> dict[str, str]:
    """A user's environment with a home of its own, no colours asked for, no environment active."""
    gone = (
        "NO_COLOR",
        "FORCE_COLOR",
        "VIRTUAL_ENV",
        "PRE_COMMIT",
        "GITHUB_ACTIONS",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
    )
    kept = {k: v for k, v in os.environ.items() if k not in gone}
    return {**kept, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **more}


def graphlint(
    *args: object, cwd: Path, stdin: str | bytes | None = None, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command line in `cwd` in a process of its own."""
    home = cwd.parent / "home"
    home.mkdir(exist_ok=True)
    data = stdin.encode("utf-8") if isinstance(stdin, str) else stdin
    run = subprocess.run(
        [sys.executable, "-m", "graphlint", *map(str, args)],
        cwd=cwd,
        input=data,
        capture_output=True,
        timeout=120,
        env=environment(home, **environ),
    )
    out, err = (stream.decode("utf-8", "replace") for stream in (run.stdout, run.stderr))
    return subprocess.CompletedProcess(run.args, run.returncode, out, err)


def as_json(*args: object, cwd: Path, **options: Any) -> dict[str, Any]:
    """What `--output-format json` prints; fails if the exit status is neither 0 nor 1."""
    run = graphlint(*args, "--output-format", "json", cwd=cwd, **options)
    assert run.returncode in (0, 1), run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def places(report: dict[str, Any]) -> list[tuple[str, str, int]]:
    """(rule, path, line) of each finding."""
    return [(f["rule"], f["path"], f["line"]) for f in report["findings"]]
