"""Outputs inside something that is made anew after each replay: `self.last = Last(value=out.value)`, a tuple, a dict.

Each is an object of its own, yet all hold the memory that the next replay writes.
"""

from __future__ import annotations

from functools import lru_cache

from graphlint import queries
from graphlint.fact import Bind, Return
from graphlint.region import Region
from graphlint.value import Instance, Mapping, Place, Sequence, Tensor, Value, options

#: Aggregates in aggregates are looked into so deep.
_DEEPEST = 2


def members(region: Region, fact: Bind, since: int) -> dict[Place, Tensor]:
    """The outputs in what `fact` binds, by their places in it, if it was made after the order `since`."""
    found: dict[Place, Tensor] = {}
    for option in options(fact.value) if fact.value is not None else ():
        if not isinstance(option, (Instance, Sequence, Mapping)) or option.born is region:
            continue
        if _first_seen(region).get(option.id, 0) > since and not queries.held_graphs(option):
            _collect(region, option, found, _DEEPEST)
    return found


def _collect(region: Region, value: Value, found: dict[Place, Tensor], depth: int) -> None:
    for place, held in _parts(value):
        for option in options(held):
            if isinstance(option, Tensor):
                if queries.static_outputs(region, option, 0):
                    found[place] = option
            elif depth and getattr(option, "born", region) is not region:
                _collect(region, option, found, depth - 1)


def _parts(value: Value) -> list[tuple[Place, Value]]:
    if isinstance(value, Instance):
        named = [(n, v) for n, v in value.attrs.items() if not n.startswith("$")]
        inner = value.attrs.get("$items")
        listed = _parts(inner) if isinstance(inner, (Sequence, Mapping)) else []
        return [*((Place(value.id, n, "attribute"), v) for n, v in named), *listed]
    if isinstance(value, Sequence):
        return [(Place(value.id, str(i), "item"), v) for i, v in enumerate(value.items)]
    if isinstance(value, Mapping):
        return [(Place(value.id, str(k), "item"), v) for k, v in value.items.items()]
    return []


@lru_cache(maxsize=4)
def _first_seen(region: Region) -> dict[int, int]:
    """When each object or container was first given a name, or handed back."""
    found: dict[int, int] = {}
    for fact in region.life:
        if isinstance(fact, (Bind, Return)) and fact.value is not None:
            for option in options(fact.value):
                if isinstance(option, (Instance, Sequence, Mapping)):
                    found.setdefault(option.id, fact.order)
    return found
