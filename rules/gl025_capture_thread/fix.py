"""The capture minds its own thread only."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    return edits.fix(
        "capture in thread-local mode: what other threads do is then no error",
        edits.argument(region.at, "capture_error_mode", '"thread_local"'),
        safe=False,
    )
