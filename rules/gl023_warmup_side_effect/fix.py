"""What a warm-up changes is put back in place."""

from __future__ import annotations

from collections.abc import Iterable

from graphlint import edits
from graphlint.fact import Bind, Enter, Op, Write
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Instance, Mapping, Sequence, Tensor, Value

_TITLE = "save what the warm-up changes, and put it back"


def fix(problem: Problem, region: Region) -> Fix | None:
    if region.kind == "graphed-callables":
        return _buffers(problem.at)
    if "the running statistics" in problem.message:
        return _statistics(problem, region)
    return _written(problem, region) if "`" in problem.message else None


def _buffers(at: Location) -> Fix | None:
    """The buffers of the module that is graphed; graphing keeps the module, and so its buffers."""
    import libcst

    saved = edits.unused(at, "saved")
    for place, node in edits.inner(at):
        if not isinstance(node, (libcst.Assign, libcst.Return)):
            continue
        call = node.value
        if not isinstance(call, libcst.Call) or not call.args or call.args[0].keyword is not None:
            return None
        module = edits.code(call.args[0].value)
        if not edits.is_name(module):
            return None
        before = edits.before(place, f"{saved} = [buffer.clone() for buffer in {module}.buffers()]")
        restore = (
            f"for buffer, old in zip({module}.buffers(), {saved}):",
            "    buffer.copy_(old)",
        )
        if isinstance(node, libcst.Assign):
            return edits.fix(_TITLE, before, edits.after(place, *restore), safe=False)
        name = edits.unused(at, "graphed")
        new = (f"{name} = {edits.code(call)}", *restore, f"return {name}")
        return edits.fix(_TITLE, before, edits.rewrite(place, *new), safe=False)
    return None


def _written(problem: Problem, region: Region) -> Fix | None:
    """Tensors in attributes of the object that captures, written in place by the warm-up."""
    owners = {f.place.owner for f in region.life if isinstance(f, Bind) and f.place.kind == "attribute"}
    kept: dict[str, None] = {}
    for fact in region.captured:
        if not isinstance(fact, Write) or not isinstance(fact.target, Tensor) or fact.target.storage.born is not None:
            continue
        place = fact.target.place
        own = region.function.rpartition(".")[0] == fact.function.rpartition(".")[0] != ""
        if place is None or place.owner not in owners or not own or fact.target.storage.kind != "fresh":
            return None
        kept[f"self.{place.name}"] = None
    if not kept:
        return None
    tensors = f"({', '.join(kept)}{',' if len(kept) == 1 else ''})"
    return _around(problem, region, tensors)


def _statistics(problem: Problem, region: Region) -> Fix | None:
    """The buffers of the module that counts batches, if the function that captures can name it."""
    norm = next((f for f in region.captured if isinstance(f, Op) and "BatchNorm" in f.name), None)
    entered = [f for f in region.before if isinstance(f, Enter) and f.name == region.function]
    if norm is None or not isinstance(norm.receiver, Instance) or not entered:
        return None
    given = dict(entered[-1].given)
    own = given.pop("self", None)
    named = {**given, **({f"self.{n}": v for n, v in own.attrs.items()} if isinstance(own, Instance) else {})}
    holders = [name for name, value in named.items() if _holds(value, norm.receiver.id, 6)]
    if len(holders) != 1:
        return None
    return _around(problem, region, f"{holders[0]}.buffers()")


def _holds(value: Value, wanted: int, depth: int) -> bool:
    if isinstance(value, Instance) and value.id == wanted:
        return True
    held: Iterable[Value] = ()
    if isinstance(value, Instance):
        held = value.attrs.values()
    elif isinstance(value, Mapping):
        held = value.items.values()
    elif isinstance(value, Sequence):
        held = value.items
    return depth > 0 and any(_holds(part, wanted, depth - 1) for part in held)


def _around(problem: Problem, region: Region, tensors: str) -> Fix | None:
    """Copies before the warm-up, and before the stream that it runs on waits; put back before the capture."""
    around = [h for h in edits.headers(problem.at) if edits.text(h).startswith(("for ", "while ", "with "))]
    first = around[-1] if around else problem.at
    while (ahead := edits.previous(first)) is not None and ".wait_stream(" in edits.text(ahead):
        first = ahead
    name = edits.unused(problem.at, "saved")
    save = edits.before(first, f"{name} = [tensor.clone() for tensor in {tensors}]")
    restore = (f"for tensor, old in zip({tensors}, {name}):", "    tensor.copy_(old)")
    return edits.fix(_TITLE, save, edits.before(region.at, *restore), safe=False)
