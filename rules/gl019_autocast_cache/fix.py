"""The block that spans warm-up and capture casts anew each time."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Call) and edits.code(node.func).rpartition(".")[2] == "autocast":
            return edits.fix(
                "turn the cast cache of this block off", edits.argument(at, "cache_enabled", "False"), safe=True
            )
    return None
