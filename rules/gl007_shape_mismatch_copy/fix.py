"""The tail behind a partial write is cleared."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1 and edits.is_number(node.value):
            # A constant, as in a mask: its opposite is empty. What stands for nothing in data, only its author knows.
            tail = _tail(node.targets[0].target)
            empty = "False" if edits.code(node.value) == "True" else "0"
            return edits.fix("clear the tail", edits.after(at, f"{tail} = {empty}"), safe=False) if tail else None
    return None


def _tail(node: edits.ExpressionNode) -> str | None:
    """`x[n:]` of `x[:n]`, `x[:, n:]` of `x[:, :n]`."""
    import libcst

    if not isinstance(node, libcst.Subscript):
        return None
    parts: list[str] = []
    turned = False
    for element in node.slice:
        part = element.slice
        if isinstance(part, libcst.Slice) and part.lower is None and part.upper is not None and part.step is None:
            parts.append(f"{edits.code(part.upper)}:")
            turned = True
        else:
            parts.append(edits.code(part))
    return f"{edits.code(node.value)}[{', '.join(parts)}]" if turned else None
