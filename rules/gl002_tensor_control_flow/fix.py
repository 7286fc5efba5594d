"""Choices by a tensor's value, made on the GPU."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assert):
            message = f", {edits.code(node.msg)}" if isinstance(node.msg, libcst.SimpleString) else ""
            if node.msg is not None and not message:
                return None
            line = f"torch._assert_async({_device_side(node.test)}{message})"
            return edits.fix("check on the GPU, without waiting", edits.rewrite(at, line), safe=False)
        if isinstance(node, libcst.If):
            return _where(at, node)
    return None


def _device_side(test: edits.ExpressionNode) -> str:
    """The condition as one tensor: `not a` -> `~(a)`, `a or b` -> `(a) | (b)`."""
    import libcst

    if isinstance(test, libcst.UnaryOperation) and isinstance(test.operator, libcst.Not):
        inner = _device_side(test.expression)
        return f"~{inner}" if edits.is_primary(inner) else f"~({inner})"
    if isinstance(test, libcst.BooleanOperation):
        sign = "|" if isinstance(test.operator, libcst.Or) else "&"
        sides = [_device_side(side) for side in (test.left, test.right)]
        return f" {sign} ".join(side if edits.is_primary(side) else f"({side})" for side in sides)
    return edits.code(test)


def _where(at: Location, node: edits.IfNode) -> Fix | None:
    """`if c: x = f(x)` as `x = torch.where(c, f(x), x)`: both sides are computed, so both must be pure."""
    import libcst

    block = edits.body(at)
    if block is None or len(block[1]) != 1 or edits.has_else(at):
        return None
    try:
        line = libcst.parse_module(block[1][0]).body[0]
    except libcst.ParserSyntaxError:
        return None
    if not isinstance(line, libcst.SimpleStatementLine) or len(line.body) != 1:
        return None
    statement = line.body[0]
    condition = _device_side(node.test)
    if isinstance(statement, libcst.Assign) and len(statement.targets) == 1:
        target, value = edits.code(statement.targets[0].target), edits.code(statement.value)
    elif isinstance(statement, libcst.AugAssign):
        sign = edits.code(statement.operator).strip().rstrip("=")
        target = edits.code(statement.target)
        value = f"{target} {sign} {edits.code(statement.value)}"
    else:
        return None
    if not isinstance(libcst.parse_expression(target), (libcst.Name, libcst.Attribute)):
        return None
    new = f"{target} = torch.where({condition}, {value}, {target})"
    return edits.fix("choose on the GPU; both sides are computed", edits.rewrite_block(at, new), safe=False)
