"""The host waits for the replay that still reads the pinned buffer."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    torch = edits.torch_name(problem.at.path)
    made = edits.before(problem.at, f"{torch}.cuda.current_stream().synchronize()") if torch is not None else None
    return edits.fix("wait for the copy of the last replay before writing", made, safe=False)
