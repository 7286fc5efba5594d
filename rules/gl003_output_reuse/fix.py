"""What is kept is a copy of the static output."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    kept = edits.kept_value(problem.at)
    if kept is None:
        return None
    return edits.fix(
        "keep a copy: the next replay overwrites the output", edits.method(kept, "clone()"), safe=edits.is_plain(kept)
    )
