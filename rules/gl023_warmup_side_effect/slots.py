"""A warm-up whose placeholder names a slot of a cache, and the slot is in use: what stands there is overwritten.

Placeholders that name a slot of their own, kept for padding, harm nothing.
"""

from __future__ import annotations

from graphlint import queries
from graphlint.fact import Fact, Op, Write
from graphlint.region import Region
from graphlint.value import Const, Sequence, Storage, Tensor, Value

_ZERO = (".zeros", ".zeros_like", ".new_zeros")
_FULL = (".full", ".full_like", ".new_full")


def overwrites(region: Region, fact: Write) -> bool:
    """True if `fact` writes to the one slot that its index was made with, and eager code filled that slot before."""
    if not isinstance(fact.index, Tensor):
        return False
    made = queries.makers(f for f in region.life if f.order < fact.order)
    slot = _filled_with(made.get(fact.index.storage, []))
    mine = queries.storages(fact.target, 1)
    if slot is None or slot < 0 or not mine:
        return False
    return any(
        isinstance(f, Write)
        and f.region is None
        and f.order < fact.order
        and bool(mine & queries.storages(f.target, 1))
        and not _constant(f)
        and _covers(f, slot, made)
        for f in region.before
    )


def _filled_with(history: list[Fact]) -> int | None:
    """The number that every element of a tensor holds, if it was made with one and never written."""
    if len(history) != 1 or not isinstance(history[0], Op):
        return None
    op = history[0]
    value: Value | None = None
    if op.name.endswith(_ZERO):
        return 0
    if op.name.endswith(_FULL):
        value = op.argument(0 if op.receiver is not None and op.name.startswith("Tensor.") else 1, "fill_value")
        if op.name.endswith(".new_full"):
            value = op.argument(1, "fill_value")
    return value.value if isinstance(value, Const) and type(value.value) is int else None


def _constant(fact: Write) -> bool:
    """True for a write of zeros and the like: nobody misses them."""
    return fact.how in ("zero_", "fill_") or isinstance(fact.source, Const)


def _covers(fact: Write, slot: int, made: dict[Storage, list[Fact]]) -> bool:
    """True if a write fills this slot for sure: `cache[:n] = k`, `cache[:n].copy_(k)`, or with `torch.arange(n)`."""
    index = fact.index
    if index is None:
        view = fact.target.view if isinstance(fact.target, Tensor) else None
        return slot == 0 and view is not None and view.startswith("[:")
    if isinstance(index, Const):
        return index.value == slot and type(index.value) is int
    if isinstance(index, Sequence) and index.kind == "slice":
        start, stop, step = index.items
        begins = isinstance(start, Const) and start.value in (None, 0) and isinstance(step, Const)
        return begins and (slot == 0 or (isinstance(stop, Const) and type(stop.value) is int and slot < stop.value))
    if isinstance(index, Tensor):
        history = made.get(index.storage, [])
        op = history[0] if len(history) == 1 else None
        if isinstance(op, Op) and op.name == "torch.arange" and len(op.args) == 1:
            return slot == 0 or (isinstance(op.args[0], Const) and _below(slot, op.args[0].value))
    return False


def _below(slot: int, end: object) -> bool:
    return type(end) is int and slot < end
