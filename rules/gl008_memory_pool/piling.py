"""Graphs that pile up: one for each size that comes along, a new one while the old ones are held, a pool for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Bind, Branch, Fact, Index, Iterate, Keep, Op, Replay, Return
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Const, Host, Sequence, Value, options

UNBOUNDED = (
    "one graph for every size that comes along, kept for ever: round sizes up to a few buckets, or drop old graphs"
)
#: Ways to put a graph into a table or list.
INTO = ("setitem", "append", "extend", "add")

#: Operations that bring a tensor to the size of a bucket.
PADS = ("pad", "constant_pad_nd", "pad_sequence")
MAKERS = ("zeros", "empty", "full", "ones", "new_zeros", "new_empty", "new_full")


def kept_in(region: Region) -> Keep | None:
    """Where the graph is put into a table or list."""
    return next((f for f in queries.keeps(region, region.after) if f.region is None and f.how in INTO), None)


def pool_for_each(region: Region, others: list[Region]) -> Iterator[Problem]:
    """Graphs for several sizes, each with a pool of its own, whose outputs are used up before the next replay."""
    keep = kept_in(region)
    if region.pool is not None or keep is None or region.kind not in ("graph", "begin-end"):
        return
    alike = [o for o in others if o.at == region.at and o.pool is None and kept_like(o, keep)]
    if not alike or any(o.begin < region.begin for o in alike) or keep.how != "setitem":
        return
    if any(given_up(o, [region]) for o in alike):
        return  # the old one is let go of first: there is one at a time
    keys = {_key(k.key) for o in (region, *alike) if (k := kept_in(o)) is not None}
    handed_on = any("$pool" in g.attrs for o in (region, *alike) for g in queries.graphs(o.graph))
    if len(keys) < 2 or handed_on:
        return
    mine = {s for o in (region, *alike) for s in o.outputs}
    for fact in region.after:
        handed = (
            isinstance(fact, Return)
            and fact.region is None
            and fact.value is not None
            and not queries.held_graphs(fact.value)
        )
        if (
            handed
            and isinstance(fact, Return)
            and mine & queries.storages(fact.value)
            and any(isinstance(f, Replay) and f.order < fact.order for f in region.after)
        ):
            return
    message = (
        "each of these graphs gets a memory pool of its own, though one runs at a time: pass one `pool=` to all, "
        "large to small"
    )
    yield Problem(region.at, message, (Note(keep.at, "kept here, one for each key"),), function=region.function)


def kept_like(region: Region, keep: Keep) -> bool:
    other = kept_in(region)
    return other is not None and any(o is c for o in options(other.container) for c in options(keep.container))


def piles_up(region: Region, others: list[Region]) -> Iterator[Problem]:
    keep = kept_in(region)
    if keep is None:
        return
    earlier = [o for o in others if o.at == region.at and o.begin < region.begin and kept_like(o, keep)]
    exact = keep.how == "setitem" and _exact_size(region, keep.key, keep.function)
    if exact and lazily(region) and not bounded(region, keep):
        yield Problem(keep.at, UNBOUNDED, (Note(region.at, "captured here"),), function=keep.function)
    if not earlier or exact:
        return
    first = min(earlier, key=lambda r: r.begin)
    if keep.how == "append" and same_work(region, first) and not given_up(region, earlier):
        message = (
            "a new graph is captured while the old ones are still held: memory grows with every capture; "
            "`reset()` and drop the old one first"
        )
        yield Problem(keep.at, message, (Note(region.at, "captured here"),), function=keep.function)
    elif keep.how == "setitem" and len(earlier) == 2 and lazily(region) and not bounded(region, keep):
        keys = {_key(k.key) for o in (region, *earlier) if (k := kept_in(o)) is not None}
        if len(keys) == 3 and None not in keys:
            yield Problem(keep.at, UNBOUNDED, (Note(region.at, "captured here"),), function=keep.function)


def _exact_size(region: Region, key: Value | None, function: str) -> bool:
    """True if the key is a size, or has one, of what the caller gave: not of what was padded to a bucket."""
    if isinstance(key, Sequence):
        return any(_exact_size(region, i, function) for i in key.items)
    if not isinstance(key, Host) or key.source != "shape" or key.symbol is None:
        return False
    padded = {
        s.id
        for f in region.before
        if isinstance(f, Op) and f.name.rpartition(".")[2] in (*PADS, *(MAKERS if f.function == function else ()))
        for s in queries.storages(f.result, 1)
    }
    return not any(re.match(rf"n{number}\b", key.symbol) for number in padded)


def same_work(region: Region, other: Region) -> bool:
    """True if both captures read the same memory through the same slices: nothing but time lies between them."""
    if not region.inputs or set(region.inputs) != set(other.inputs):
        return False
    return _slices(region) == _slices(other)


def _slices(region: Region) -> list[object]:
    found: list[object] = []
    for fact in region.captured:
        if isinstance(fact, Index):
            shape = fact.result.shape if hasattr(fact.result, "shape") else None
            found.append((fact.at, shape))
    return found


def given_up(region: Region, earlier: list[Region]) -> bool:
    mine = [g for o in earlier for g in queries.graphs(o.graph)]
    for fact in region.before:
        if isinstance(fact, Op) and fact.order > earlier[0].end:
            if queries.resets(fact, mine):
                return True
            if fact.name.rpartition(".")[2] in ("clear", "pop", "popleft", "popitem"):
                return True
    return False


def lazily(region: Region) -> bool:
    """True if the capture is made when a key is missing, inside a loop that goes on with other sizes.

    A loop that only captures goes over a list made at start-up: what comes along later gets no graph from it.
    """
    begin = queries.begin_fact(region)
    if begin is None or not begin.complete:
        return False
    missing = next((f for f in queries.start_of_call(region, begin) if _tests_key(f, begin)), None)
    if missing is None:
        missing = next((f for f in reversed(list(region.before)) if _tests_key(f, begin)), None)
    if missing is None:
        return False
    around = [
        f
        for f in region.before
        if isinstance(f, Iterate) and len(f.loops) < len(missing.loops) and missing.loops[: len(f.loops)] == f.loops
    ]
    return any(not _written_out(f.value) and _replays(region, f, missing) for f in around if queries.inside(missing, f))


def _replays(region: Region, loop: Iterate, inner: Fact) -> bool:
    """True if a graph is replayed in the loop that `inner` stands in."""
    depth = len(loop.loops)
    number = inner.loops[depth][0]
    return any(
        isinstance(f, Replay) and len(f.loops) > depth and f.loops[:depth] == loop.loops and f.loops[depth][0] == number
        for f in region.life
    )


def _tests_key(fact: Fact, begin: Fact) -> bool:
    """True for the branch that the capture is made in where a key is missing, or where it left early if it was not."""
    if not isinstance(fact, Branch) or not (" in " in fact.text or "None" in fact.text):
        return False
    return queries.inside(begin, fact) and (queries.covers(fact, begin) or (not fact.taken and fact.body is None))


def _written_out(value: Value) -> bool:
    return all(isinstance(o, Sequence) and o.kind != "range" and o.rest is None for o in options(value))


def bounded(region: Region, keep: Keep) -> bool:
    """True if something looks at how many graphs there are, or lets old ones go."""
    for fact in region.life:
        if isinstance(fact, Branch) and "len(" in fact.text and fact.function == keep.function:
            return True
        if isinstance(fact, Op) and fact.name.rpartition(".")[2] in ("pop", "popitem", "clear", "move_to_end"):
            return True
        if isinstance(fact, Bind) and fact.how in ("del", "pop", "clear") and fact.place.kind == "item":
            return True
    return False


def _key(value: Value | None) -> object:
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, Sequence):
        return tuple(_key(i) for i in value.items)
    return id(value) if value is not None else None
