"""What the graph reads lives as long as the graph."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Enter
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.value import Tensor


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    graph = edits.graph_text(region.at)
    if graph is None:
        return None
    if problem.message.startswith("a temporary"):
        return _kept(region, graph, _argument(problem, region))
    if problem.function != region.function:
        return None
    for _, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            return _kept(region, graph, target.value if isinstance(target, libcst.Name) else None)
        if isinstance(node, libcst.Del) and isinstance(node.target, libcst.Name):
            return _kept(region, graph, node.target.value)
    return None


def _kept(region: Region, graph: str, name: str | None) -> Fix | None:
    if name is None:
        return None
    made = edits.after_block(region.at, f"{graph}.{name} = {name}")
    return edits.fix("keep it with the graph that reads it", made, safe=True)


def _argument(problem: Problem, region: Region) -> str | None:
    """The name under which the function that captures got the temporary."""
    entered = [f for f in region.before if isinstance(f, Enter) and f.name == region.function]
    span = problem.at.span
    names = [
        name
        for name, value in (entered[-1].given.items() if entered else ())
        if isinstance(value, Tensor)
        and value.storage in region.inputs
        and (made := value.storage.made) is not None
        and made.path == problem.at.path
        and (span.line, span.column) <= (made.span.line, made.span.column)
        and (made.span.end_line, made.span.end_column) <= (span.end_line, span.end_column)
    ]
    return names[0] if len(names) == 1 else None
