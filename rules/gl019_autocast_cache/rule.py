"""Autocast's weight cache, shared by eager work and a capture: the graph reads the cached casts."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Context, Fact, Op, Operator
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Instance, Storage, Tensor, Value, tensors


@rule("GL019", "autocast-cache", "error", "an autocast block that caches weights spans eager work and the capture")
def check(region: Region) -> Iterator[Problem]:
    begin = queries.begin_fact(region)
    if begin is None or region.kind == "compile":
        return
    blocks = [c for c in begin.contexts if c.name in queries.AUTOCAST_BLOCKS]
    if not blocks or not caches(blocks):
        return
    outer = blocks[0]
    if region.kind == "graphed-callables":
        message = "`make_graphed_callables` refuses an autocast block that caches weights: pass `cache_enabled=False`"
        yield Problem(outer.at, message, (Note(region.at, "graphed here"),), function=outer.function)
        return
    captured = [f for f in region.captured if caches([c for c in f.contexts if c.name in queries.AUTOCAST_BLOCKS])]
    weights = {w for f in captured for w in cast(f)}
    for fact in region.before:
        if fact.region is None and outer in fact.contexts and weights & cast(fact):
            message = (
                "this autocast block caches the casts of the weights before the capture inside it: the graph reads the "
                "cached copies, not the weights; pass `cache_enabled=False` or open it inside the capture"
            )
            notes = (Note(fact.at, "cast and cached here"), *region.way(begin))
            yield Problem(outer.at, message, notes[:5], function=outer.function)
            return


def caches(blocks: list[Context]) -> bool:
    """True if the weight cache is on inside these blocks, outermost first: an inner block inherits the flag."""
    on = True
    for block in blocks:
        flag = block.value.kwargs.get("cache_enabled") if isinstance(block.value, Instance) else None
        args = block.value.args if isinstance(block.value, Instance) else ()
        enabled = block.value.kwargs.get("enabled") if isinstance(block.value, Instance) else None
        flag = flag if flag is not None else args[3] if len(args) > 3 else None
        if isinstance(flag, Const):
            on = bool(flag.value)
        elif flag is not None:
            on = False
        if isinstance(enabled, Const) and not enabled.value:
            on = False
    return on


def cast(fact: Fact) -> set[Storage | int]:
    """The trainable weights that `fact` casts: memory of parameters, or the layer (by identity) that owns them."""
    values: list[Value] = []
    if isinstance(fact, Op):
        values = [*fact.args, *fact.kwargs.values(), *([fact.receiver] if fact.receiver is not None else [])]
    elif isinstance(fact, Operator) and fact.op == "@":
        values = list(fact.operands)
    found: set[Storage | int] = set()
    for value in values:
        if isinstance(value, Tensor):
            if value.storage.kind == "parameter" and value.requires_grad:
                found.add(value.storage)
        elif isinstance(value, Instance) and value.external.startswith("torch.nn."):
            weights = [t for t in tensors(value, 1) if t.storage.kind == "parameter"]
            if not weights or any(t.requires_grad for t in weights):
                found.add(value.id)
    return found
