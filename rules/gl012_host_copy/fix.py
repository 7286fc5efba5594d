"""Numbers reach the GPU as arguments of kernels, not as copies."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location

_TITLE = "make it on the GPU: a kernel's argument needs no copy"


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, libcst.Subscript) and edits.is_number(node.value):
                line = f"{edits.code(target)}.fill_({edits.code(node.value)})"
                return edits.fix("fill the element: its index needs no copy", edits.rewrite(at, line), safe=True)
        made = None
        if isinstance(node, libcst.Call) and edits.code(node.func).rpartition(".")[2] in ("tensor", "as_tensor"):
            made = _full(at, node)
        if made is not None:
            return made
    return None


def _full(at: Location, call: edits.CallNode) -> Fix | None:
    """`torch.tensor(v, device=d)` as `torch.full((), v, device=d)`; of a list, one for each element, stacked."""
    import libcst

    if not call.args or call.args[0].keyword is not None or call.args[0].star:
        return None
    torch = edits.code(call.func).rpartition(".")[0] or "torch"
    rest = [edits.code(a).rstrip(" ,") for a in call.args[1:]]
    if not any(a.startswith("device") for a in rest) or any("=" not in a for a in rest):
        return None
    value = call.args[0].value
    if edits.is_number(value):
        new = f"{torch}.full({', '.join(['()', edits.code(value), *rest])})"
        return edits.fix(_TITLE, edits.replace(at, new), safe=True)
    if isinstance(value, (libcst.List, libcst.Tuple)):
        if not value.elements or any(isinstance(e.value, (libcst.List, libcst.Tuple)) for e in value.elements):
            return None
        numbers = {edits.code(e.value) for e in value.elements}
        if len(numbers) == 1 and edits.is_number(value.elements[0].value):
            new = f"{torch}.full({', '.join([f'({len(value.elements)},)', numbers.pop(), *rest])})"
            return edits.fix(_TITLE, edits.replace(at, new), safe=True)
    elif not isinstance(value, (libcst.Name, libcst.Attribute)):
        return None
    each = f"{torch}.full({', '.join(['()', 'number', *rest])})"
    new = f"{torch}.stack([{each} for number in {edits.code(value)}])"
    return edits.fix(_TITLE, edits.replace(at, new), safe=False)
