"""Collections before the capture, a reset before the next one, a replay after the first."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    text = edits.text(problem.at).strip()
    if text.endswith("gc.collect()") or text == "collect()":
        here = problem.function == region.function
        if here or (problem.at.path == region.at.path and edits.mentions(region.at.path, r"^(?:import|from) gc\b")):
            made = edits.move(problem.at, region.at)
            return edits.fix("collect before the capture, not in it", *made, safe=here)
        return edits.fix("do not collect in the capture", edits.delete(problem.at), safe=False)
    if problem.message.startswith("swallows a failed capture"):
        return _raised(problem)
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


def _raised(problem: Problem) -> Fix | None:
    """A handler that does nothing, or only tells, raises again."""
    title = "let the error out: the graph holds nothing"
    first = edits.first_inside(problem.at)
    if first is None:
        return None
    inside = [first, *edits.rest_of_body(first)]
    if [edits.text(at) for at in inside] == ["pass"]:
        return edits.fix(title, edits.rewrite(first, "raise"), safe=False)
    if edits.text(inside[-1]).startswith(("return", "raise", "continue", "break")):
        return None
    return edits.fix(title, edits.after(inside[-1], "raise"), safe=False)
