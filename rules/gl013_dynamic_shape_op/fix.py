"""Masked selections as work on everything with the rest made neutral; sizes that the host knows, given."""

from __future__ import annotations

import re

from graphlint import edits
from graphlint.fact import Enter, Index, Op, Write
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Host, Instance, Tensor, Value, options

#: What people call the number of rows that repeats add up to.
_TOTALS = re.compile(r"(?i)^(?:.*_)?(?:total|tokens|frames|rows|out(?:put)?_(?:size|len|length))(?:_.*)?$")


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, (libcst.Assign, libcst.AugAssign)) and (made := _written(problem, region, at, node)):
            return made
        if not isinstance(node, libcst.Call):
            continue
        name = edits.code(node.func).rpartition(".")[2]
        if name in ("cross_entropy", "nll_loss") and len(node.args) == 2:
            first, second = (_selected(a.value) for a in node.args)
            if first and second and first[1] == second[1] and all(a.keyword is None for a in node.args):
                mask = second[1] if edits.is_primary(second[1]) else f"({second[1]})"
                # Selecting by a mask makes its dimensions one, so these are made one here, too.
                rows = f"{first[0]}.flatten(0, {mask}.dim() - 1)"
                labels = f"{second[0]}.masked_fill(~{mask}, -100).flatten()"
                new = f"{edits.code(node.func)}({rows}, {labels})"
                return edits.fix("let the loss ignore the other rows", edits.replace(at, new), safe=True)
        if name == "repeat_interleave" and problem.at == at:
            total = _total(problem, region)
            made_ = edits.argument(at, "output_size", total) if total is not None else None
            return edits.fix("give the size, which the host knows", made_, safe=False)
        by_rows = [edits.code(a.value) for a in node.args if a.keyword is None or a.keyword.value == "dim"] == ["0"]
        if by_rows and name in ("sum", "mean") and len(node.args) == 1:
            return _over_rows(problem, region, at, node, name)
        if isinstance(node.func, libcst.Attribute) and name in ("sum", "mean") and not node.args:
            found = _selected(node.func.value)
            if found and problem.at.span.line == at.span.line and (full := _mask(problem, region, found[1])):
                tensor, torch = found[0], edits.torch_name(at.path) or "torch"
                new = f"{torch}.where({full}, {tensor}, 0).sum()"
                if name == "mean":
                    if full != found[1]:
                        return None
                    mask = full if edits.is_primary(full) else f"({full})"
                    new = f"({new} / {mask}.sum())"
                return edits.fix("reduce over all with the rest set to zero", edits.replace(at, new), safe=False)
    return None


def _over_rows(problem: Problem, region: Region, at: Location, node: edits.CallNode, name: str) -> Fix | None:
    """`x[mask].mean(0)`, the mask being one of rows."""
    import libcst

    found = _selected(node.func.value) if isinstance(node.func, libcst.Attribute) else None
    facts = [f for f in region.captured if isinstance(f, Index) and f.at == problem.at]
    torch = edits.torch_name(at.path)
    if found is None or torch is None or not facts or any(_rank(f.index) != 1 for f in facts):
        return None
    full = _mask(problem, region, found[1])
    if full is None or problem.at.span.line != at.span.line:
        return None
    new = f"{torch}.where({full}, {found[0]}, 0).sum(0)"
    if name == "mean":
        mask = found[1] if edits.is_primary(found[1]) else f"({found[1]})"
        new = f"({new} / {mask}.sum())"
    return edits.fix("reduce over all rows with the others set to zero", edits.replace(at, new), safe=False)


def _mask(problem: Problem, region: Region, mask: str) -> str | None:
    """The mask with the dimensions of what it selects from, None where these are not known."""
    for fact in region.captured:
        base: Value | None = None
        index: Value | None = None
        if fact.at != problem.at:
            continue
        if isinstance(fact, Index):
            base, index = fact.base, fact.index
        elif isinstance(fact, Write):
            base, index = fact.target, fact.index
        elif isinstance(fact, Op) and fact.name.endswith("masked_select"):
            base, index = (fact.receiver or fact.argument(0, "input"), fact.args[-1] if fact.args else None)
        if base is None or index is None:
            continue
        ranks = _rank(base), _rank(index)
        if ranks[0] is None or ranks[1] is None or ranks[0] < ranks[1]:
            return None
        if ranks[0] == ranks[1]:
            return mask
        more = ", None" * (ranks[0] - ranks[1])
        return f"{mask if edits.is_primary(mask) else f'({mask})'}[...{more}]"
    return None


def _rank(value: Value) -> int | None:
    found = {len(o.shape) if isinstance(o, Tensor) and o.shape is not None else None for o in options(value)}
    return found.pop() if len(found) == 1 else None


def _written(problem: Problem, region: Region, at: Location, node: edits.AssignNode) -> Fix | None:
    """`x[m] = y[m]`, `x[m] = scalar tensor` and `x[m] *= 2` as a choice over all of `x`."""
    import libcst

    target = node.targets[0].target if isinstance(node, libcst.Assign) else node.target
    found, torch = _selected(target), edits.torch_name(at.path)
    if found is None or torch is None or (isinstance(node, libcst.Assign) and len(node.targets) != 1):
        return None
    tensor, mask = found[0], _mask(problem, region, found[1])
    source = _selected(node.value)
    value = None
    if source is not None and source[1] == found[1]:
        value = source[0]
    elif edits.is_number(node.value) or _is_scalar(problem, region):
        value = edits.code(node.value)
    if mask is None or value is None:
        return None
    if isinstance(node, libcst.AugAssign):
        sign = edits.code(node.operator).strip().rstrip("=")
        value = f"{tensor} {sign} {value if edits.is_primary(value) or edits.is_number(node.value) else f'({value})'}"
    line = f"{tensor}.copy_({torch}.where({mask}, {value}, {tensor}))"
    return edits.fix("choose element by element", edits.rewrite(at, line), safe=False)


def _is_scalar(problem: Problem, region: Region) -> bool:
    """Whether one value is written everywhere."""
    sources = [f.source for f in region.captured if isinstance(f, Write) and f.at.line == problem.at.line]
    return bool(sources) and all(isinstance(s, Tensor) and s.shape == () for s in sources)


def _total(problem: Problem, region: Region) -> str | None:
    """The only number in reach that is a total by its name: an argument, an attribute, a constant of the file."""
    entered = [f for f in region.life if isinstance(f, Enter) and f.name == problem.function]
    given = entered[-1].given if entered else {}
    names = [name for name, value in given.items() if _TOTALS.match(name) and _number(value)]
    own = given.get("self")
    if not names and isinstance(own, Instance):
        names = [f"self.{name}" for name, value in own.attrs.items() if _TOTALS.match(name) and _number(value)]
    if not names:
        lines = (edits.text(at) for at in edits.mentions(problem.at.path, r"^[A-Z][A-Z0-9_]*\s*=\s*\d+$"))
        names = [name for line in lines if _TOTALS.match(name := line.split("=")[0].strip())]
    return names[0] if len(names) == 1 else None


def _number(value: Value) -> bool:
    return all(isinstance(o, Host) or (isinstance(o, Const) and type(o.value) is int) for o in options(value))


def _selected(node: edits.ExpressionNode) -> tuple[str, str] | None:
    """(`x`, `mask`) of `x[mask]` and `torch.masked_select(x, mask)`."""
    import libcst

    if isinstance(node, libcst.Call) and edits.code(node.func).endswith("masked_select"):
        values = [edits.code(a.value) for a in node.args if a.keyword is None]
        if isinstance(node.func, libcst.Attribute) and len(values) == 1:
            values = [edits.code(node.func.value), *values]
        return (values[0], values[1]) if len(values) == 2 else None
    if not isinstance(node, libcst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    if not isinstance(index, libcst.Index) or index.star or isinstance(index.value, (libcst.Tuple, libcst.Integer)):
        return None
    return edits.code(node.value), edits.code(index.value)
