"""Numbers reach the GPU as arguments of kernels, not as copies."""

from __future__ import annotations

from graphlint import edits, queries
from graphlint.fact import Enter, Op, Write
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Host, Sequence, Tensor, Value, options, tensors

_TITLE = "make it on the GPU: a kernel's argument needs no copy"


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if problem.message.endswith("move it before") and (made := _made_there(problem, region)):
        return made
    if "from pinned memory" in problem.message and (made := _not_blocking(problem, region)):
        return made
    if (made := _picked(problem)) is not None:
        return made
    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, libcst.Subscript) and edits.is_number(node.value):
                return _filled(problem, region, at, target, edits.code(node.value))
        made = None
        if isinstance(node, libcst.Call) and edits.code(node.func).rpartition(".")[2] in ("tensor", "as_tensor"):
            made = _full(at, node, region)
        if isinstance(node, libcst.Call) and edits.code(node.func).endswith(".new_tensor") and at == problem.at:
            made = _new_full(at, node)
        if made is not None:
            return made
    return None


def _picked(problem: Problem) -> Fix | None:
    """`x[:, [0, 2]]` as a stack of `x[:, 0]` and `x[:, 2]`: numbers need no copy."""
    import libcst

    node, torch = edits.expression(problem.at), edits.torch_name(problem.at.path)
    if not isinstance(node, libcst.Subscript) or torch is None:
        return None
    parts = [e.slice for e in node.slice]
    lists = [n for n, p in enumerate(parts) if isinstance(p, libcst.Index) and isinstance(p.value, libcst.List)]
    if len(lists) != 1 or any(isinstance(p, libcst.Index) for n, p in enumerate(parts) if n != lists[0]):
        return None
    picked = parts[lists[0]]
    numbers = [e.value for e in picked.value.elements] if isinstance(picked, libcst.Index) else []  # type: ignore[attr-defined]
    texts = [edits.code(n) for n in numbers]
    if not texts or any(not t.lstrip("-").isdigit() for t in texts):
        return None
    spelled = [edits.code(p) for p in parts]
    rows = []
    for text in texts:
        spelled[lists[0]] = text
        rows.append(f"{edits.code(node.value)}[{', '.join(spelled)}]")
    where = f", {lists[0]}" if lists[0] else ""
    new = f"{torch}.stack([{', '.join(rows)}]{where})"
    return edits.fix("pick by numbers, which need no copy", edits.replace(problem.at, new), safe=False)


def _not_blocking(problem: Problem, region: Region) -> Fix | None:
    """A copy from pinned memory is recorded if it does not block."""
    for fact in region.captured:
        if fact.at == problem.at and isinstance(fact, Op):
            source = fact.argument(0, "src")
            pinned = [o.storage.pinned for o in options(source) if isinstance(o, Tensor)] if source is not None else []
            if pinned and all(pinned):
                made = edits.argument(problem.at, "non_blocking", "True")
                return edits.fix("do not block: the source is pinned", made, safe=False)
    return None


def _new_full(at: Location, call: edits.CallNode) -> Fix | None:
    """`x.new_tensor(0.5)` as `x.new_full((), 0.5)`."""
    owner = edits.code(call.func).removesuffix(".new_tensor")
    if len(call.args) != 1 or call.args[0].keyword is not None or not edits.is_number(call.args[0].value):
        return None
    new = f"{owner}.new_full((), {edits.code(call.args[0].value)})"
    return edits.fix(_TITLE, edits.replace(at, new), safe=False)


def _filled(problem: Problem, region: Region, at: Location, target: edits.SubscriptNode, number: str) -> Fix | None:
    """`x[i] = 1.0` as a fill: of the element, if numbers say which, or of the rows that a tensor names."""
    writes = [f for f in region.captured if isinstance(f, Write) and f.at == problem.at and f.index is not None]
    indices = [o for f in writes for o in (options(f.index) if f.index is not None else ())]
    parts = [p for o in indices for p in (o.items if isinstance(o, Sequence) and o.kind == "tuple" else [o])]
    x = edits.code(target.value)
    if parts and all(isinstance(o, (Const, Host)) for part in parts for o in options(part)):
        line = f"{edits.code(target)}.fill_({number})"
        return edits.fix("fill the element: its index needs no copy", edits.rewrite(at, line), safe=True)
    rows = [o for o in indices if isinstance(o, Tensor) and o.dtype == "int64" and o.shape is not None]
    if rows and len(rows) == len(indices) and all(o.shape is not None and len(o.shape) == 1 for o in rows):
        # An index by a tensor would give a copy to be filled.
        line = f"{x}.index_fill_(0, {edits.code(target.slice[0])}, {number})"
        return edits.fix("fill the rows: the number needs no copy then", edits.rewrite(at, line), safe=True)
    return None


def _made_there(problem: Problem, region: Region) -> Fix | None:
    """`torch.arange(n).exp().to(d)`: what makes the tensor makes it on the device in the first place."""
    import libcst

    moved = next((f for f in region.captured if isinstance(f, Op) and f.at == problem.at), None)
    call = edits.expression(problem.at)
    if moved is None or not isinstance(call, libcst.Call):
        return None
    entered = [f for f in region.life if isinstance(f, Enter) and f.name == problem.function and f.order < moved.order]
    device = _device(call, set(entered[-1].given) if entered else set())
    facts = [f for f in region.captured if f.order < moved.order]
    made: list[Edit | None] = []
    for fact in queries.sources(moved.receiver, queries.makers(facts))[1]:
        if not isinstance(fact, Op) or any(tensors(v, 2) for v in queries.operands(fact)):
            continue
        if fact.function != problem.function or fact.at.path != problem.at.path:
            return None
        made.append(edits.made_on(fact.at, device) if device is not None else None)
    return edits.fix("make it on the GPU", *made, safe=False) if made else None


def _device(call: edits.CallNode, given: set[str]) -> str | None:
    """How the source spells the device that a tensor is moved to, if that can be said anywhere in the function."""
    import libcst

    name = edits.code(call.func).rpartition(".")[2]
    if not call.args:
        return '"cuda"' if name == "cuda" else None
    first = call.args[0]
    text = edits.code(first.value)
    if isinstance(first.value, libcst.SimpleString):
        return text
    if not edits.is_name(text) or text.split(".")[0] not in given:
        return None
    return text if "device" in text.rpartition(".")[2] or first.keyword is not None else None


def _full(at: Location, call: edits.CallNode, region: Region) -> Fix | None:
    """`torch.tensor(v, device=d)` as `torch.full((), v, device=d)`; of a list, one for each element, stacked."""
    import libcst

    if not call.args or call.args[0].keyword is not None or call.args[0].star:
        return None
    torch = edits.code(call.func).rpartition(".")[0] or "torch"
    rest = [edits.code(a).rstrip(" ,") for a in call.args[1:]]
    if not any(a.startswith("device") for a in rest) or any("=" not in a for a in rest):
        return None
    value = call.args[0].value
    given = [f.args[0] for f in region.captured if isinstance(f, Op) and f.at == at and f.args]
    if edits.is_number(value) or (given and all(_is_scalar(v) for v in given)):
        new = f"{torch}.full({', '.join(['()', edits.code(value), *rest])})"
        return edits.fix(_TITLE, edits.replace(at, new), safe=edits.is_number(value))
    if not given or not all(_scalars(v) for v in given):
        return None
    if isinstance(value, (libcst.List, libcst.Tuple)):
        numbers = {edits.code(e.value) for e in value.elements}
        if len(numbers) == 1 and edits.is_number(value.elements[0].value):
            new = f"{torch}.full({', '.join([f'({len(value.elements)},)', numbers.pop(), *rest])})"
            return edits.fix(_TITLE, edits.replace(at, new), safe=True)
    elif not isinstance(value, (libcst.Name, libcst.Attribute)):
        return None
    each = f"{torch}.full({', '.join(['()', 'number', *rest])})"
    new = f"{torch}.stack([{each} for number in {edits.code(value)}])"
    return edits.fix(_TITLE, edits.replace(at, new), safe=False)


def _is_scalar(value: Value) -> bool:
    """Whether a value is a number for all that is known."""
    found = options(value)
    return bool(found) and all(
        isinstance(o, Host) or (isinstance(o, Const) and isinstance(o.value, (int, float))) for o in found
    )


def _scalars(value: Value) -> bool:
    """Whether a value is a list of numbers that has at least one."""
    return all(
        isinstance(o, Sequence)
        and bool(o.items or o.rest)
        and all(_is_scalar(i) for i in (*o.items, *([o.rest] if o.rest is not None else [])))
        for o in options(value)
    )
