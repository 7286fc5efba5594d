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
    if problem.message.startswith("captures into a graph object that holds a graph"):
        # A name may have been kept elsewhere, for replays of the old graph; an attribute is the only owner.
        line = f"{graph} = torch.cuda.CUDAGraph()" if graph.isidentifier() else f"{graph}.reset()"
        return edits.fix("begin with an empty graph", edits.before(region.at, line), safe=False)
    if problem.message.startswith("the call that captures does not replay"):
        return edits.fix(
            "replay once after the capture, which runs nothing by itself",
            edits.after_block(region.at, f"{graph}.replay()"),
            safe=False,
        )
    return None
