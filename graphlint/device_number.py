"""A fix that several rules share: a Python number in an attribute becomes a tensor on the GPU.

    self.level = 1.0              self.level = torch.tensor(1.0, device="cuda")
    player.level = chosen    ->   player.level.fill_(chosen)
    self.level += 0.1             (as it is: a tensor is added to in place)

Only where every assignment of the attribute was seen, and where captured code does nothing with it but arithmetic.
"""

from __future__ import annotations

import re

from graphlint import edits
from graphlint.fact import Bind, Branch, Operator, Truth
from graphlint.finding import Edit
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Place, Value, options, origins

_SPELLED = r"[\w.\[\]()'\"]*\.{name}\s*(?:=(?!=)|[-+*/%|&^]=|//=|\*\*=)"
#: What a number is needed for: a count, a bound, a size, a key.
_NUMBER = r"\b(?:range|int|float|min|max|round|len|math\.\w+)\([^()]*\.{name}\b|\[[^\]]*\.{name}\b"


def rewrites(region: Region, place: Place) -> list[Edit | None] | None:
    """The edits, None if the attribute cannot become a tensor."""
    binds = [
        f for f in region.life if isinstance(f, Bind) and (f.place.owner, f.place.name) == (place.owner, place.name)
    ]
    made = [f for f in binds if f.function.endswith("__init__") and f.how == "="]
    if place.kind != "attribute" or len({f.at for f in made}) != 1 or not _only_arithmetic(region, place):
        return None
    files = {f.at.path for f in binds}
    torch = {path: edits.torch_name(path) for path in files}
    if any(edits.mentions(path, _NUMBER.format(name=re.escape(place.name))) for path in files):
        return None
    whole = any(isinstance(f.value, Const) and type(f.value.value) is int for f in made)
    found: list[Edit | None] = []
    seen = {f.at.span.line: f for f in binds}
    for path in files:
        for at in edits.mentions(path, _SPELLED.format(name=re.escape(place.name))):
            bind = next((seen[n] for n in range(at.span.line, at.span.end_line + 1) if n in seen), None)
            if bind is None or bind.at.path != path:
                return None
            found += _rewritten(at, bind, bind in made, torch[path], place.name, whole)
    return found


def _rewritten(at: Location, bind: Bind, first: bool, torch: str | None, name: str, whole: bool) -> list[Edit | None]:
    """`whole` if the tensor holds whole numbers, so that nothing else may be put in."""
    import libcst

    nodes = [node for _, node in edits.inner(at) if isinstance(node, (libcst.Assign, libcst.AugAssign))]
    if len(nodes) != 1 or torch is None:
        return [None]
    node = nodes[0]
    value = edits.code(node.value)
    if whole and not all(isinstance(n, libcst.Integer) or n == f".{name}" for n in _leaves(node.value, name)):
        return [None]
    if isinstance(node, libcst.AugAssign):
        return [None] if first or (whole and edits.code(node.operator).strip() == "/=") else []
    target = edits.code(node.targets[0].target)
    if len(node.targets) != 1 or not target.endswith(f".{name}"):
        return [None]
    if first:
        number = isinstance(bind.value, Const) and type(bind.value.value) in (int, float)
        return [edits.rewrite(at, f'{target} = {torch}.tensor({value}, device="cuda")') if number else None]
    how = "copy_" if re.search(rf"\.{re.escape(name)}\b", value) else "fill_"
    return [edits.rewrite(at, f"{target}.{how}({value})")]


def _leaves(node: edits.Node, name: str) -> list[object]:
    """What an expression is made of by `+`, `-` and `*`; the attribute itself stands as `.name`."""
    import libcst

    if isinstance(node, libcst.BinaryOperation) and edits.code(node.operator).strip() in ("+", "-", "*"):
        return [*_leaves(node.left, name), *_leaves(node.right, name)]
    if isinstance(node, libcst.UnaryOperation):
        return _leaves(node.expression, name)
    return [f".{name}" if isinstance(node, libcst.Attribute) and node.attr.value == name else node]


def _only_arithmetic(region: Region, place: Place) -> bool:
    """Whether captured code reads the attribute as an operand, or only counts it up."""
    for fact in region.captured:
        if isinstance(fact, (Truth, Branch)) and _from(fact.value, place):
            return False
        if isinstance(fact, Operator):
            continue
        values: list[Value] = [*getattr(fact, "args", ()), *getattr(fact, "kwargs", {}).values()]
        values += [v for name in ("index", "source", "receiver") if isinstance(v := getattr(fact, name, None), Value)]
        if any(_from(v, place) for v in values):
            return False
    return True


def _from(value: Value, place: Place) -> bool:
    return any((p.owner, p.name) == (place.owner, place.name) for o in options(value) for p in origins(o))
