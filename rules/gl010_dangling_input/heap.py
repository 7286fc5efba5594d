"""Who holds the memory that a graph borrowed, place by place, as the program goes on.

Glossary:
    key   a place that can hold memory: (owner, name).
    lent  memory made outside the capture that the graph uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from graphlint.fact import Bind, Enter, Fact
from graphlint.interp.objects import Partial
from graphlint.value import Instance, Mapping, Place, Sequence, Storage, Tensor, Value, options, tensors

Key = tuple[int, str]


@dataclass(slots=True)
class Heap:
    """Who holds which of the `lent` memory, place by place, as the life goes on."""

    lent: set[Storage]
    holders: dict[Storage, dict[Key, Fact]] = field(default_factory=dict)
    held: dict[Key, set[Storage]] = field(default_factory=dict)
    containers: dict[Key, set[int]] = field(default_factory=dict)
    entered: list[Enter] = field(default_factory=list)
    returned: set[Storage] = field(default_factory=set)

    def hold(self, value: Value | None, key: Key, fact: Fact) -> None:
        for storage in held_by(value) & self.lent:
            self.keep(storage, key, fact)
        tables = {o.id for o in options(value) if isinstance(o, (Sequence, Mapping))} if value is not None else set()
        if tables:
            self.containers[key] = tables

    def held_beside(self, storage: Storage, fact: Bind) -> bool:
        """True if something beside the place that `fact` rebinds holds `storage`; a table's names hold its entries."""
        table, name = fact.owner, fact.place.name
        holders = self.holders.get(storage, {})
        if fact.place.kind != "item" or name == "*" or not isinstance(table, Mapping):
            return bool(holders)
        if any(storage in held_by(v) for k, v in table.items.items() if str(k) != name):
            return True
        return any(table.id not in self.containers.get(key, ()) for key in holders)

    def keep(self, storage: Storage, key: Key, fact: Fact) -> None:
        self.holders.setdefault(storage, {})[key] = fact
        self.held.setdefault(key, set()).add(storage)

    def bound_by(self, key: Key) -> dict[Storage, Fact]:
        """Memory that `key` holds, with the fact that bound it."""
        return {s: self.holders[s][key] for s in self.held.get(key, ()) if key in self.holders[s]}

    def release(self, key: Key) -> dict[Storage, Fact]:
        """The same, which `key` holds no longer."""
        found = self.bound_by(key)
        for storage in self.held.pop(key, ()):
            self.holders[storage].pop(key, None)
        return found


def key_of(place: Place) -> Key:
    return place.owner, place.name


def held_by(value: Value | None) -> set[Storage]:
    """Memory that a value keeps alive by itself: not through objects, whose attributes are places of their own."""
    found: set[Storage] = set()
    if value is None:
        return found
    for option in options(value):
        if isinstance(option, Tensor):
            found.add(option.storage)
        elif isinstance(option, (Sequence, Mapping)):
            found |= {t.storage for t in tensors(option, 3)}
        elif isinstance(option, Instance) and "$items" in option.attrs:
            found |= held_by(option.attrs["$items"])  # a named tuple, which no Bind fills
        elif isinstance(option, Partial):
            for item in (*option.args, *option.kwargs.values()):
                found |= held_by(item)
    return found


def release_container(heap: Heap, owner: int, old: set[Storage]) -> set[Storage]:
    gone: set[Storage] = set()
    for storage, keys in heap.holders.items():
        if storage in old:
            for key in [k for k in keys if k[0] == owner]:
                del keys[key]
                gone.add(storage)
    return gone
