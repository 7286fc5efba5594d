"""Batches of a DataLoader: which tensors are one, and whether the last of them may be smaller.

Glossary:
    batch    what a loop over a loader binds, or a part of it, on any device and of any dtype.
    smaller  the last batch of a loader without `drop_last=True` whose data no whole number of batches holds.
"""

from __future__ import annotations

from graphlint import queries
from graphlint.fact import Bind, Branch, Fact, Iterate, Op
from graphlint.region import Region
from graphlint.value import Const, Instance, Place, Tensor, Unknown, Value, options, tensors

#: What an Unknown is called that a loader gave.
HINT = "batch"
#: Methods that keep a batch's rows.
_KEEPS = frozenset({
    "cuda", "to", "cpu", "float", "half", "bfloat16", "double", "long", "int", "type", "contiguous", "pin_memory",
    "clone", "detach",
})  # fmt: skip


def smaller_last(region: Region, fact: Fact, value: Value) -> bool:
    """True if `value`, used whole at `fact`, is a batch of a loader whose last one is smaller than the others."""
    loader = _loader(region, fact) if is_batch(region, fact, value) else None
    return loader is not None and not _full_batches(loader) and not _sized_up(region, fact)


def is_batch(region: Region, fact: Fact, value: Value, depth: int = 4) -> bool:
    """True for a batch as it came, or on another device or of another dtype."""
    if isinstance(value, Unknown):
        return value.hint.startswith(HINT)
    if not isinstance(value, Tensor) or (value.view or "").startswith("[") or depth == 0:
        return False
    maker = _maker(region, fact, value)
    if maker is not None:
        kept = maker.name.rpartition(".")[2] in _KEEPS and maker.receiver is not None
        return kept and is_batch(region, maker, maker.receiver or value, depth - 1)
    return value.place is not None and _bound_to_batch(region, fact, value.place)


def _maker(region: Region, fact: Fact, value: Tensor) -> Op | None:
    for position in range(region.position(fact.order) - 1, -1, -1):
        past = region.life[position]
        if isinstance(past, Op) and isinstance(past.result, Tensor) and past.result.storage is value.storage:
            return past
    return None


def _bound_to_batch(region: Region, fact: Fact, place: Place) -> bool:
    """True if the name, or the entry of a batch, stands for what a loader gave."""
    if place.owner == 0:
        return place.name == HINT
    for position in range(region.position(fact.order) - 1, -1, -1):
        past = region.life[position]
        if isinstance(past, Bind) and past.place == place:
            return isinstance(past.value, Unknown) and past.value.hint.startswith(HINT)
    return False


def _loop(region: Region, fact: Fact) -> Iterate | None:
    """The loop over a loader whose round `fact` lies in."""
    depth = len(fact.loops)
    for past in reversed([f for f in region.life if isinstance(f, Iterate) and f.order < fact.order]):
        around = len(past.loops) < depth and fact.loops[: len(past.loops)] == past.loops
        if around and queries.inside(fact, past) and _loaders(past):
            return past
    return None


def _loaders(loop: Iterate) -> list[Instance]:
    return [o for o in options(loop.value) if isinstance(o, Instance) and o.external.endswith(".DataLoader")]


def _loader(region: Region, fact: Fact) -> Instance | None:
    loop = _loop(region, fact)
    return _loaders(loop)[0] if loop is not None else None


def _sized_up(region: Region, fact: Fact) -> bool:
    """True if something that is not known was asked in this round before: it may have been the size."""
    loop = _loop(region, fact)
    if loop is None or fact.maybe > loop.maybe:
        return True
    between = region.life[region.position(loop.order) : region.position(fact.order)]
    return any(isinstance(f, Branch) and not isinstance(f.value, Const) and f.chain == loop.chain for f in between)


def _full_batches(loader: Instance) -> bool:
    flag = loader.kwargs.get("drop_last")
    if flag is not None:
        return not isinstance(flag, Const) or bool(flag.value)
    size = loader.kwargs.get("batch_size", loader.args[1] if len(loader.args) > 1 else Const(1))
    if "batch_sampler" in loader.kwargs or not isinstance(size, Const) or not isinstance(size.value, int):
        return True
    data = loader.args[0] if loader.args else loader.kwargs.get("dataset")
    rows = [t.shape[0] for t in tensors(data, 2) if t.shape] if data is not None else []
    if isinstance(data, Instance):
        rows += [t.shape[0] for a in data.args for t in tensors(a, 1) if t.shape]
    known = [r for r in rows if isinstance(r, int)]
    return not known or size.value < 2 or known[0] % size.value == 0
