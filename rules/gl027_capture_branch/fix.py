"""The capture computes what eager code computes."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region

_TITLE = "compute in the capture what the eager code computes"


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if not problem.message.startswith("the branch on a capture under way"):
        return None
    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.IfExp) and (asked := _asked(node.test)) is not None:
            eager = edits.code(node.orelse if asked else node.body)
            return edits.fix(_TITLE, edits.replace(at, eager), safe=False)
        if isinstance(node, libcst.If) and (asked := _asked(node.test)) is not None:
            return edits.fix(_TITLE, edits.drop_block(at) if asked else edits.unwrap(at), safe=False)
    return None


def _asked(test: edits.ExpressionNode) -> bool | None:
    """True for `capturing()`, False for `not capturing()`, None if the test asks for more."""
    import libcst

    if isinstance(test, libcst.UnaryOperation) and isinstance(test.operator, libcst.Not):
        inner = _asked(test.expression)
        return None if inner is None else not inner
    return True if isinstance(test, libcst.Call) and not test.args else None
