"""What is kept of a compiled function's outputs is a copy."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    if not any(word in problem.message for word in ("clone", "overwrite")) or ".grad" in problem.message:
        return None
    kept = edits.kept_value(problem.at)
    if kept is None:
        return None
    return edits.fix("keep a copy: the next run overwrites the output", edits.method(kept, "clone()"), safe=False)
