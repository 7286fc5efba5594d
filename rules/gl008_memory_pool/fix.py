"""No-op calls go, graphs share a pool or have their own, and the largest is captured first."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Enter
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Instance


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if problem.at == region.at and ("its own pool" in problem.message or "retired" in problem.message):
        if edits.makes_graph(region.at) is None:
            return None  # a wrapper of graphs that others make, with a pool that they choose
        made = edits.without_argument(region.at, "pool")
        return edits.fix("give the graph a pool of its own", made, safe=False)
    if problem.message.startswith("each of these graphs gets a memory pool of its own"):
        return _one_pool(region)
    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Expr) and edits.code(node).rstrip(" ;").endswith("empty_cache()"):
            return _freed_before(problem, region, at)
        if isinstance(node, libcst.For):
            return _largest_first(at, node)
    return None


def _freed_before(problem: Problem, region: Region, at: Location) -> Fix | None:
    """The call, and what lets a tensor go in front of it, move before the capture, where memory is given back."""
    if problem.function != region.function:
        torch = edits.torch_name(at.path)
        asked = edits.wrap(at, [f"if not {torch}.cuda.is_current_stream_capturing():"]) if torch else None
        return edits.fix("call it in eager runs only; in a capture it does nothing", asked, safe=True)
    moved = [at]
    dropped = edits.previous(at)
    if dropped is not None and (edits.text(dropped).startswith("del ") or edits.text(dropped).endswith(" = None")):
        moved.insert(0, dropped)
    lines = [line for place in moved for line in edits.lines(place)]
    made = (*map(edits.delete, moved), edits.before(region.at, *lines))
    return edits.fix("free before the capture; in it the call does nothing", *made, safe=len(moved) == 1)


def _one_pool(region: Region) -> Fix | None:
    """A pool made in front of the loop that captures, or once for the object, and given to each capture."""
    torch = edits.torch_name(region.at.path)
    if torch is None or region.kind != "graph":
        return None
    title = "let the graphs share one pool"
    loops = [h for h in edits.headers(region.at) if edits.text(h).startswith(("for ", "while "))]
    if loops:
        name = edits.unused(region.at, "pool")
        made = edits.before(loops[-1], f"{name} = {torch}.cuda.graph_pool_handle()")
        return edits.fix(title, made, edits.argument(region.at, "pool", name), safe=False)
    entered = [f for f in region.before if isinstance(f, Enter) and f.name == region.function]
    own = entered[-1].given.get("self") if entered else None
    if not isinstance(own, Instance) or "graph_pool" in own.attrs:
        return None
    lines = (
        'if getattr(self, "graph_pool", None) is None:',
        f"    self.graph_pool = {torch}.cuda.graph_pool_handle()",
    )
    pool = edits.argument(region.at, "pool", "self.graph_pool")
    return edits.fix(title, edits.before(region.at, *lines), pool, safe=False)


def _largest_first(at: Location, loop: edits.ForNode) -> Fix | None:
    import libcst

    title = "capture the largest first: smaller graphs then fit into its pool"
    for place, node in edits.inner(at):
        if node is loop.iter or (edits.code(node) == edits.code(loop.iter) and type(node) is type(loop.iter)):
            if isinstance(node, libcst.Call) and edits.code(node.func) == "sorted":
                return edits.fix(title, edits.argument(place, "reverse", "True"), safe=False)
            if isinstance(node, libcst.Call) and edits.code(node.func) in ("range", "enumerate", "zip"):
                return None
            return edits.fix(title, edits.replace(place, f"sorted({edits.code(node)}, reverse=True)"), safe=False)
    return None
