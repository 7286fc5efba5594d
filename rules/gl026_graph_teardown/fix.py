"""The graph lets go of its collectives before the process group goes."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    graph = edits.graph_text(region.at)
    if graph is None:
        return None
    owners = [name.rpartition(".")[0] for name in (problem.function, region.function)]
    if problem.function != region.function and not (graph.startswith("self.") and owners[0] == owners[1] != ""):
        return None
    torch, ahead = edits.torch_name(problem.at.path), edits.previous(problem.at)
    waited = ahead is not None and edits.text(ahead).endswith("synchronize()")
    lines = ([] if waited or torch is None else [f"{torch}.cuda.synchronize()"]) + [f"{graph}.reset()"]
    return edits.fix("reset the graph first", edits.before(problem.at, *lines), safe=False)
