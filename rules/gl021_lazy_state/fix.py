"""State is reset in its memory; what depends on data is computed by the captured code."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    if "is made inside the capture on first use" in problem.message:
        return _reset_in_place(problem)
    if "is computed on first use" in problem.message:
        return _computed_each_time(problem)
    return None


def _reset_in_place(problem: Problem) -> Fix | None:
    """`x = None`, which drops what was there, as `x.zero_()`, where zeros are what is made anew."""
    import libcst

    made = next((n for _, n in edits.inner(problem.at) if isinstance(n, (libcst.Assign, libcst.AnnAssign))), None)
    value = made.value if made is not None else None
    if not isinstance(value, libcst.Call) or edits.code(value.func).rpartition(".")[2] not in _ZEROS:
        return None
    dropped = next((n.at for n in problem.notes if n.message.startswith("dropped here")), None)
    for at, node in edits.inner(dropped) if dropped is not None else ():
        if isinstance(node, libcst.Assign) and len(node.targets) == 1 and edits.code(node.value) == "None":
            target = edits.code(node.targets[0].target)
            lines = (f"if {target} is not None:", f"    {target}.zero_()")
            return edits.fix("reset it in place", edits.rewrite(at, *lines), safe=False)
        if isinstance(node, libcst.Del) and not isinstance(node.target, libcst.Tuple):
            return edits.fix("reset it in place", edits.rewrite(at, f"{edits.code(node.target)}.zero_()"), safe=False)
    return None


_ZEROS = ("zeros", "zeros_like", "new_zeros")


def _computed_each_time(problem: Problem) -> Fix | None:
    """The test around a memo goes, if it guards nothing but the memo and its flag."""
    import libcst

    around = edits.headers(problem.at)
    header = around[0] if around else None
    if header is None or not edits.text(header).startswith("if "):
        return None
    first = edits.first_inside(header)
    inside = [first, *edits.rest_of_body(first)] if first is not None else []
    for line in inside:
        node = next((n for _, n in edits.inner(line) if isinstance(n, (libcst.Assign, libcst.AnnAssign))), None)
        if node is None or not edits.text(line):
            return None
    return edits.fix("compute it at each run, and so in the graph", edits.unwrap(header), safe=False)
