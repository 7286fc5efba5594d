"""Arguments of the calls that lead to a capture, and of later calls that replay its graph.

A graph that waits in a variable or a table keeps what its first call was given. What later calls give instead is lost,
unless it is part of the key or written into a static input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from graphlint import queries
from graphlint.fact import Bind, CaptureBegin, Enter, Keep, Replay
from graphlint.region import Region
from graphlint.value import NONE, Const, Host, Mapping, Place, Sequence, Value, options, origins

#: Functions that make ready what others use.
_SETS_UP = re.compile(r"warm_?up|set_?up|^init|_init\b|load_|^build|^prepare|^capture")


def enclosing(region: Region, begin: CaptureBegin) -> list[Enter]:
    """The calls that are under way at the capture, innermost first."""
    found: list[Enter] = []
    depth = len(begin.chain)
    for fact in reversed([f for f in region.before if isinstance(f, Enter)]):
        if len(fact.chain) == depth - len(found) and queries.inside(begin, fact):
            found.append(fact)
    return found


def finders(region: Region, enter: Enter) -> Iterator[Enter]:
    """Later calls of the same function that replay this graph."""
    for later in region.after:
        if not isinstance(later, Enter) or later.name != enter.name or later.region is not None:
            continue
        if any(isinstance(f, Replay) and region in f.replayed for f in queries.rest_of_call(region, later)):
            yield later


def others(region: Region, enter: Enter) -> list[Enter]:
    """All calls of the function."""
    return [f for f in region.life if isinstance(f, Enter) and f.name == enter.name]


def arguments(enter: Enter) -> Iterator[tuple[str, int | str | None, Value]]:
    """Parameters with a Python value, and such values in `*args` or a dictionary of options: name, position or key,
    value."""
    for name, value in enter.given.items():
        if scalar(value):
            yield name, None, value
        elif isinstance(value, Sequence) and value.kind == "tuple":
            yield from ((name, i, item) for i, item in enumerate(value.items) if scalar(item))
        elif isinstance(value, Mapping) and value.rest is None:
            yield from ((name, k, item) for k, item in value.items.items() if isinstance(k, str) and scalar(item))


def argument(enter: Enter, name: str, position: int | str | None) -> Value | None:
    value = enter.given.get(name)
    if position is None:
        return value
    if isinstance(position, str):
        return value.items.get(position, NONE) if isinstance(value, Mapping) else None
    return value.items[position] if isinstance(value, Sequence) and position < len(value.items) else None


def varies(
    region: Region, enter: Enter, calls: list[Enter], value: Value, name: str, position: int | str | None
) -> bool:
    """True if one of the calls is given another value: one that is not read from the same place, unchanged since.

    What nobody was seen to give, a parameter of code that the analysis itself calls, counts only for a call that goes
    on to replay the graph.
    """
    finding: set[int] | None = None
    for call in calls:
        other = argument(call, name, position)
        if other is None or identity(other) == identity(value) or _same_reading(region, other, value):
            continue
        if given_by_nobody(other) or given_by_nobody(value):
            if _SETS_UP.search(enter.name.rpartition(".")[2]):
                continue  # called once, before all else: what a second call would be given tells nothing
            finding = finding if finding is not None else {f.order for f in finders(region, enter)}
            if call.order not in finding:
                continue
        return True
    return False


def given_by_nobody(value: Value) -> bool:
    """A parameter of code that the analysis itself calls: its callers are elsewhere."""
    return isinstance(value, Host) and value.source == "param"


def _same_reading(region: Region, one: Value, other: Value) -> bool:
    """True for two numbers that were read from the same places, none of which is bound more than once."""
    read = all_origins(one)
    if not (isinstance(one, Host) and isinstance(other, Host) and read and read == all_origins(other)):
        return False
    bound = [f.place for f in region.life if isinstance(f, Bind) and f.place in read]
    return len(bound) == len(set(bound))


def stored(region: Region, begin: CaptureBegin) -> Keep | None:
    """Where the graph is put under a key into a table: after its capture, or before it in the same call."""
    facts = chain(region.after, queries.start_of_call(region, begin))
    return next((f for f in queries.keeps(region, facts) if f.how == "setitem" and f.region is None), None)


def by_name(key: Value | None) -> bool:
    """True for the name of a function as a key."""
    return any(place.name == "__name__" for place in all_origins(key))


def identity(value: Value) -> object:
    if isinstance(value, Const):
        return type(value.value).__name__, repr(value.value)
    if isinstance(value, Sequence):
        return tuple(identity(i) for i in value.items)
    return value.symbol if isinstance(value, Host) and value.symbol else id(value)


def scalar(value: Value) -> bool:
    """A Python number, flag or name, or a list or tuple of them."""
    if isinstance(value, Sequence):
        return bool(value.items) and all(isinstance(i, (Const, Host)) for i in value.items)
    return isinstance(value, (Const, Host)) and not (isinstance(value, Const) and value.value is None)


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
