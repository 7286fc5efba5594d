"""Modules that die with the call which made them, while a graph goes on reading their weights.

Glossary:
    mortal   an object in a local name that a graph's weights hang on: a module, or what refers to one (a wrapper, the
             handle of a hook).
    owner    an object that holds some of these weights itself.
    holder   what has an object in an attribute, an entry or a variable, or further down.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphlint import places
from graphlint.fact import Bind, Fact, Frame, Keep, Leave, Op, Return
from graphlint.interp.objects import BoundMethod, Partial
from graphlint.region import Region
from graphlint.value import Instance, Mapping, Sequence, Storage, Tensor, Value, options, parts, tensors

MEMORY = "torch.UntypedStorage"
EMPTYING = ("del", "pop", "clear", "remove", "discard")
#: Whatever holds a global name, or a name of nobody knows what.
_OUTSIDE = 0


def dying(region: Region, closed: dict[int, set[str]]) -> Iterator[tuple[Leave, Bind]]:
    """Ends of calls that take a module with them, each with the line that named it. closed: see `_closed_scopes`."""
    lent = {s for s in places.borrowed(region) if s.kind in ("parameter", "buffer")}
    if not lent:
        return
    made: dict[int, Bind] = {}
    held: set[int] = set()
    holders = _Holders()
    for fact in region.life:
        if isinstance(fact, Bind) and fact.how not in EMPTYING and fact.place.kind == "local":
            for option in options(fact.value) if fact.value is not None else ():
                if isinstance(option, Instance) and option.external != MEMORY and _weights(option) & lent:
                    made.setdefault(option.id, fact)
                    if fact.region is None:
                        holders.add_local(_objects(option, 4), fact)
            continue
        for value in _held(fact):
            objects = _objects(value, 4)
            held |= objects
            if isinstance(fact, Bind):
                holders.add(objects, fact.owner)
        if isinstance(fact, Leave) and fact.region is None and fact.order > region.end:
            mentioned = closed.get(fact.scope, set())
            mortals = [
                v
                for name, v in fact.variables.items()
                if name not in mentioned and isinstance(v, Instance) and v.id in made and v.id not in held
                if made[v.id].place.owner == fact.scope
            ]
            for value in mortals:
                binding = made[value.id]
                if binding.function != fact.function or len(binding.chain) != len(fact.chain):
                    continue
                if places.lives_on(region, fact) and not holders.outlive(value, lent, {v.id for v in mortals}, fact):
                    yield fact, binding


def _held(fact: Fact) -> list[Value | None]:
    """What gets a place that may outlive the call, by this fact."""
    if isinstance(fact, Bind):
        return [fact.value] if fact.how not in EMPTYING else []
    if isinstance(fact, (Return, Keep)):
        return [fact.value]
    if isinstance(fact, Op) and isinstance(fact.result, Instance) and fact.name[:1].islower():
        return [*fact.args, *fact.kwargs.values()] if fact.result.external.startswith("torch.optim") else []
    return []


def _weights(module: Instance) -> set[Storage]:
    return {t.storage for t in tensors(module, 6) if t.storage.kind in ("parameter", "buffer")}


def _objects(value: Value | None, depth: int) -> set[int]:
    """The objects in a value, those in containers, attributes and arguments included."""
    found: set[int] = set()
    if value is None or depth < 0:
        return found
    for option in options(value):
        inner: list[Value] = []
        if isinstance(option, Instance):
            found.add(option.id)
            inner = [*option.args, *option.kwargs.values(), *option.attrs.values()]
        elif isinstance(option, Sequence):
            found.add(option.id)
            inner = list(option.items)
        elif isinstance(option, Mapping):
            found.add(option.id)
            inner = list(option.items.values())
        elif isinstance(option, BoundMethod):
            inner = [option.receiver]
        elif isinstance(option, Partial):
            inner = [*option.args, *option.kwargs.values(), option.function]
        for item in inner:
            found |= _objects(item, depth - 1)
    return found


@dataclass(slots=True)
class _Holders:
    """Who holds whom, by number."""

    of: dict[int, set[int]] = field(default_factory=dict)
    tables: set[int] = field(default_factory=set)
    """Holders that are containers: they hold nothing unless something holds them."""
    calls: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    """Holders that are the variables of a call -> the way to it."""

    def add(self, objects: set[int], owner: Value | None) -> None:
        number = owner.id if isinstance(owner, (Instance, Sequence, Mapping)) else _OUTSIDE
        if isinstance(owner, (Sequence, Mapping)):
            self.tables.add(number)
        for one in objects:
            self.of.setdefault(one, set()).add(number)

    def add_local(self, objects: set[int], fact: Bind) -> None:
        self.calls[fact.place.owner] = fact.chain
        for one in objects:
            self.of.setdefault(one, set()).add(fact.place.owner)

    def outlive(self, mortal: Instance, lent: set[Storage], dying: set[int], end: Leave) -> bool:
        """True if something that does not hang on the mortal holds every owner below it: a wrapper dies, and what it
        wraps lives on."""
        below: set[int] = set()
        owners: set[int] = set()
        todo: list[tuple[Value, int, int]] = [(mortal, mortal.id, 6)]
        while todo:
            value, owner, depth = todo.pop()
            for option in options(value):
                if isinstance(option, Tensor):
                    if option.storage in lent:
                        owners.add(owner)
                elif isinstance(option, (Instance, Sequence, Mapping)) and option.id not in below and depth:
                    below.add(option.id)
                    inner = option.id if isinstance(option, Instance) else owner
                    todo += [(item, inner, depth - 1) for item in parts(option)]
        over = {call for call, way in self.calls.items() if len(way) >= len(end.chain) or end.chain[: len(way)] != way}
        passed = {*dying, mortal.id, *over}
        return bool(owners) and all(self._kept(owner, below, set(passed)) for owner in owners)

    def _kept(self, one: int, below: set[int], passed: set[int]) -> bool:
        for holder in self.of.get(one, set()) - passed:
            passed.add(holder)
            if (holder not in below and holder not in self.tables) or self._kept(holder, below, passed):
                return True
        return False
