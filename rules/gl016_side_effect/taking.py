"""What captured code takes from an iterator or a queue: once, at the capture."""

from __future__ import annotations

from graphlint import queries
from graphlint.fact import Bind, Index, Op, Operator, Unfollowed
from graphlint.interp.objects import ClassValue
from graphlint.region import Region
from graphlint.value import Instance, Place, Sequence, Unknown, Value, options, origins

_QUEUES = {
    "get": "takes from a queue", "get_nowait": "takes from a queue",
    "put": "puts into a queue", "put_nowait": "puts into a queue",
}  # fmt: skip


def taken(region: Region, fact: Op) -> str | None:
    """What to say of `next()` and of a queue's methods; None for anything else, and where it does no harm."""
    if fact.name == "builtins.next":
        return _advanced(region, fact)
    queue, last = fact.receiver, fact.name.rpartition(".")[2]
    if last not in _QUEUES or not isinstance(queue, Instance) or queue.born is region:
        return None
    if not queue.external.startswith(("queue.", "multiprocessing.")):
        return None
    return f"`{fact.text}` {_QUEUES[last]} while capturing only: replays run no Python; do it around the replay"


def _advanced(region: Region, fact: Op) -> str | None:
    """`next()` of an iterator that was there before the capture, and whose value the graph uses."""
    source = fact.args[0] if fact.args else None
    if not isinstance(source, (Sequence, Instance)) or source.born is region or not _streams(region, source):
        return None
    if isinstance(source, Instance) and isinstance(source.cls, ClassValue):
        return None  # told in its own `__next__`
    slot = Place(source.id, "next", "item")
    storages = queries.storages(fact.result, 2)
    for later in region.captured:
        if later.order <= fact.order or not isinstance(later, (Op, Operator, Index, Unfollowed)):
            continue
        values = list(later.args) if isinstance(later, Unfollowed) else queries.operands(later)
        if any(slot in origins(v) or storages & queries.storages(v, 1) or _is_taken(v) for v in values):
            return (
                "`next(...)` moves an iterator on while capturing only: replays run no Python and use this value again"
            )
    return None


def _streams(region: Region, iterator: Sequence | Instance) -> bool:
    """True for what goes on from call to call: a loader, a generator, a counter, an iterator that an object keeps; not
    for one over a list that only hands one capture its buffers."""
    if not isinstance(iterator, Sequence) or iterator.rest is not None:
        return True
    return any(isinstance(f, Bind) and f.value is iterator and f.place.kind == "attribute" for f in region.life)


def _is_taken(value: Value) -> bool:
    return any(isinstance(o, Unknown) and o.hint == "next()" for o in options(value))
