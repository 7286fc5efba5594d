"""Graphs cached under a key that omits something the capture froze."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Branch, Enter, Fact, Index, Keep, Op, Truth
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Host, Mapping, Place, Sequence, Value, options, origins


@rule("GL022", "graph-key", "error", "a graph is cached under a key that omits something the capture froze")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    store = stored(region)
    if store is None or store.key is None:
        return
    key = all_origins(store.key)
    if not key and not isinstance(store.key, Const):
        return
    for name, value, fact in frozen(region):
        mine = all_origins(value)
        if mine & key or not varies(region, mine, value):
            continue
        message = (
            f"the graph is stored under a key without `{name}`, which the capture froze: "
            "another value finds this graph and gets its result; put it into the key"
        )
        yield Problem(store.at, message, (Note(fact.at, f"`{name}` is frozen here"), *region.way(fact))[:5], function=store.function)
        return
    yield from narrower(region, store, key)


def stored(region: Region) -> Keep | None:
    """Where the graph is put under a key into a table."""
    mine = queries.graphs(region.graph)
    for fact in region.after:
        if isinstance(fact, Keep) and fact.how == "setitem" and fact.region is None:
            if any(g in mine for g in queries.held_graphs(fact.value)):
                return fact
    return None


def all_origins(value: Value | None, depth: int = 3) -> frozenset[Place]:
    """The places that a key, or the parts of a composed key, were computed from."""
    if value is None or depth < 0:
        return frozenset()
    found = origins(value)
    for option in options(value):
        if isinstance(option, Sequence):
            found = found.union(*(all_origins(i, depth - 1) for i in option.items), all_origins(option.rest, depth - 1))
        elif isinstance(option, Mapping):
            found = found.union(*(all_origins(i, depth - 1) for i in option.items.values()))
    return found


def frozen(region: Region) -> Iterator[tuple[str, Value, Fact]]:
    """Python values that captured code looks at, with the name that they have there."""
    for fact in region.captured:
        values: list[Value] = []
        if isinstance(fact, Enter) and len(fact.chain) == region.depth + 1:
            values = [*fact.args, *fact.kwargs.values()]
        elif isinstance(fact, (Branch, Truth)):
            values = [fact.value]
        elif isinstance(fact, Index):
            values = [fact.index]
        elif isinstance(fact, Op):
            values = [*fact.args, *fact.kwargs.values()]
        for value in values:
            parts = value.items if isinstance(value, Sequence) else [value]
            for part in parts:
                for option in options(part):
                    if isinstance(option, (Const, Host)) and option.place is not None and option.place.kind == "local":
                        yield option.place.name, option, fact


def varies(region: Region, places: frozenset[Place], value: Value) -> bool:
    """True if a caller gives the value: one that is a parameter, passed differently in different calls."""
    seen: set[object] = set()
    for fact in region.life:
        if isinstance(fact, Enter) and fact.region is None:
            for given in (*fact.args, *fact.kwargs.values()):
                for option in options(given):
                    if isinstance(option, (Const, Host)) and _parameter(fact, option, places):
                        seen.add(_identity(option))
    return len(seen) > 1


def _parameter(enter: Enter, value: Value, places: frozenset[Place]) -> bool:
    return bool(origins(value) & places)


def _identity(value: Value) -> object:
    if isinstance(value, Const):
        return type(value.value).__name__, repr(value.value)
    return value.symbol if isinstance(value, Host) and value.symbol else id(value)


def narrower(region: Region, store: Keep, key: frozenset[Place]) -> Iterator[Problem]:
    """A buffer that the graph reads, in a table with fewer parts to its key than the graph's own."""
    width = parts(store.key)
    for fact in region.before:
        if not (isinstance(fact, Keep) and fact.how == "setitem" and fact.key is not None and fact.region is None):
            continue
        buffers = queries.storages(fact.value, 1) & set(region.inputs)
        if buffers and parts(fact.key) < width and queries.storages(fact.value, 0):
            theirs = all_origins(fact.key)
            if theirs and theirs & key:
                message = (
                    "a buffer that the graph reads is stored under fewer keys than the graph: the next capture replaces it "
                    "here, and refreshes no longer reach this graph"
                )
                yield Problem(fact.at, message, (Note(store.at, "the graph has the full key here"), *region.way(region.inputs[next(iter(buffers))]))[:5], function=fact.function)
                return


def parts(key: Value | None) -> int:
    return len(key.items) if isinstance(key, Sequence) else 1


