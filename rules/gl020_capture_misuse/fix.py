"""Collections before the capture, a reset before the next one, a replay after the first."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    text = edits.text(problem.at).strip()
    if text.endswith("gc.collect()") or text == "collect()":
        here = problem.function == region.function
        made = [edits.delete(problem.at), *([edits.before(region.at, text)] if here else [])]
        return edits.fix("collect before the capture, not in it", *made, safe=here)
    graph = edits.graph_text(region.at)
    if graph is None:
        return None
    if "reset" in problem.message:
        return edits.fix(
            "reset the graph before it captures again", edits.before(region.at, f"{graph}.reset()"), safe=False
        )
    if "replay" in problem.message and problem.at == region.at:
        return edits.fix(
            "replay once after the capture, which runs nothing by itself",
            edits.after_block(region.at, f"{graph}.replay()"),
            safe=False,
        )
    return None
