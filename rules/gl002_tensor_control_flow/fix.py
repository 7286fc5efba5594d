"""Choices by a tensor's value, made on the GPU."""

from __future__ import annotations

import re

from graphlint import edits
from graphlint.fact import Truth
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Host, options


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    nodes = edits.inner(problem.at)
    if any(isinstance(node, (libcst.While, libcst.CompIf)) for _, node in nodes):
        return None  # how often something is done cannot be chosen on the GPU
    if any(isinstance(node, libcst.BooleanOperation) and _guards(node) for _, node in nodes):
        return None
    for at, node in nodes:
        if at == problem.at and isinstance(node, libcst.Call) and (made := _of_all(at, node)) is not None:
            return made
    if _on_the_host(problem, region):
        return None  # where that is read, first
    for at, node in nodes:
        if isinstance(node, libcst.Assert):
            torch = edits.torch_name(at.path)
            message = f", {edits.code(node.msg)}" if isinstance(node.msg, libcst.SimpleString) else ""
            if torch is None or (node.msg is not None and not message):
                return None
            line = f"{torch}._assert_async({_device_side(node.test)}{message})"
            return edits.fix("check on the GPU, without waiting", edits.rewrite(at, line), safe=False)
        if isinstance(node, libcst.If):
            return _where(at, node) or _returned(at, node)
        if isinstance(node, (libcst.IfExp, libcst.BooleanOperation, libcst.Comparison, libcst.Call)):
            made = _expression(at, node)
            if made is not None:
                return made
    return None


def _on_the_host(problem: Problem, region: Region) -> bool:
    """Whether what is tested was read from a tensor before: a choice on the GPU needs the tensor."""
    tested = [f.value for f in region.captured if isinstance(f, Truth) and f.at == problem.at]
    return any(isinstance(o, (Host, Const)) for value in tested for o in options(value))


def _of_all(at: Location, node: edits.CallNode) -> Fix | None:
    """`all(t > 0 for t in ts)` as one tensor."""
    import libcst

    torch = edits.torch_name(at.path)
    if torch is None or edits.code(node.func) not in ("all", "any") or len(node.args) != 1:
        return None
    given = node.args[0].value
    if not isinstance(given, (libcst.GeneratorExp, libcst.ListComp)):
        return None
    new = f"{torch}.stack([{edits.code(given.elt)}{edits.code(given.for_in)}]).{edits.code(node.func)}()"
    return edits.fix("ask on the GPU", edits.replace(at, new), safe=False)


def _expression(at: Location, node: edits.ExpressionNode) -> Fix | None:
    """`a if t else b`, `t and u`, `0 < t < 1` and `max(t, u)` as work on tensors."""
    import libcst

    torch, new = edits.torch_name(at.path), None
    if torch is None:
        return None
    if isinstance(node, libcst.IfExp):
        if _one(node.body) and _one(node.orelse):
            new = f"{torch}.where({_device_side(node.test)}, {edits.code(node.body)}, {edits.code(node.orelse)})"
    elif isinstance(node, libcst.Call):
        plain = len(node.args) == 2 and not any(a.keyword or a.star or edits.is_number(a.value) for a in node.args)
        if plain and edits.code(node.func) in ("max", "min"):
            both = ", ".join(edits.code(a.value) for a in node.args)
            new = f"{torch}.{edits.code(node.func)}imum({both})"
    elif isinstance(node, libcst.BooleanOperation) or len(getattr(node, "comparisons", ())) == 2:
        new = _device_side(node)
    if new is None:
        return None
    return edits.fix("calculate on the GPU", edits.replace(at, new), safe=False)


def _guards(test: edits.ExpressionNode) -> bool:
    """Whether one side of a test makes sure that the other can be asked at all."""
    return re.search(r"\bNone\b|\bisinstance\b|\bhasattr\b|\blen\(", edits.code(test)) is not None


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
    if isinstance(test, libcst.Comparison) and len(test.comparisons) == 2:
        first, second = test.comparisons
        middle = edits.code(first.comparator)
        left = f"({edits.code(test.left)}{edits.code(first.operator)}{middle})"
        return f"{left} & ({middle}{edits.code(second.operator)}{edits.code(second.comparator)})"
    return edits.code(test)


def _where(at: Location, node: edits.IfNode) -> Fix | None:
    """`if c: x = f(x)` as `x = torch.where(c, f(x), x)`: both sides are computed, so both must be pure."""
    import libcst

    block, torch = edits.body(at), edits.torch_name(at.path)
    if block is None or torch is None or edits.has_else(at):
        return None
    statement = _parsed(block[1])
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
    new = f"{target} = {torch}.where({condition}, {value}, {target})"
    return edits.fix("choose on the GPU; both sides are computed", edits.rewrite_block(at, new), safe=False)


def _returned(at: Location, node: edits.IfNode) -> Fix | None:
    """`if c: return a`, some assignments, `return b` as `return torch.where(c, a, b)` behind the assignments."""
    import libcst

    block, torch = edits.body(at), edits.torch_name(at.path)
    rest = edits.rest_of_body(at)
    early = _parsed(block[1]) if block is not None and not edits.has_else(at) else None
    last = _parsed([edits.text(rest[-1])]) if rest else None
    if torch is None or not (isinstance(early, libcst.Return) and isinstance(last, libcst.Return)):
        return None
    if early.value is None or last.value is None or not (_one(early.value) and _one(last.value)):
        return None
    bound: set[str] = set()
    for place in rest[:-1]:
        assigned = _parsed([edits.text(place)])
        if not isinstance(assigned, libcst.Assign) or not all(
            isinstance(t.target, libcst.Name) for t in assigned.targets
        ):
            return None
        bound |= {edits.code(t.target) for t in assigned.targets}
    condition, first = _device_side(node.test), edits.code(early.value)
    if bound & set(re.findall(r"\w+", f"{condition} {first}")):
        return None
    new = f"return {torch}.where({condition}, {first}, {edits.code(last.value)})"
    made = (edits.drop_block(at), edits.rewrite(rest[-1], new))
    return edits.fix("choose on the GPU; both sides are computed", *made, safe=False)


def _one(value: edits.ExpressionNode) -> bool:
    """Whether a returned value may be one tensor."""
    import libcst

    plain = (libcst.Tuple, libcst.List, libcst.Dict, libcst.SimpleString, libcst.FormattedString)
    return not isinstance(value, plain) and edits.code(value) not in ("None", "True", "False")


def _parsed(lines: list[str]) -> edits.Node | None:
    """The only simple statement in some lines."""
    import libcst

    try:
        body = libcst.parse_module("\n".join(lines)).body
    except libcst.ParserSyntaxError:
        return None
    if len(body) != 1 or not isinstance(body[0], libcst.SimpleStatementLine) or len(body[0].body) != 1:
        return None
    return body[0].body[0]
