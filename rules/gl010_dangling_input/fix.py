"""What the graph reads lives as long as the graph."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    graph = edits.graph_text(region.at)
    if graph is None or problem.function != region.function:
        return None
    for _, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, libcst.Name):
                line = f"{graph}.{target.value} = {target.value}"
                made = edits.after_block(region.at, line)
                return edits.fix("keep it with the graph that reads it", made, safe=True)
    return None
