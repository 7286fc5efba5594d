"""What is bound between replays, and to other values than before."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphlint import places, queries
from graphlint.fact import Bind, CaptureBegin, Fact, Keep, Op, Return
from graphlint.knowledge import optimizers
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import HELD, Const, Host, Instance, Mapping, Place, Sequence, Tensor, Value, options, origins

from .rates import scheduled

Key = tuple[int, str]
_GROWS = ("append", "appendleft", "add", "insert", "extend", "extendleft")


@dataclass(slots=True)
class Changes:
    """What is bound between replays: by place, and containers that are replaced or whose object is made anew."""

    places: dict[Key, list[Fact]] = field(default_factory=dict)
    containers: dict[int, Fact] = field(default_factory=dict)
    entries: dict[int, Fact] = field(default_factory=dict)
    """Containers of which some entry changes: it matters where it is not known which entry is read."""
    records: dict[Location, list[tuple[Instance, Fact]]] = field(default_factory=dict)
    keys: set[Place | int] = field(default_factory=set)
    """What the graph is kept under: the places that its key was made of, the ids of objects that are the key."""
    handed_in: set[int] = field(default_factory=set)
    """The objects that captured code found under names from around the capture."""


def changes_of(region: Region) -> Changes:
    found = Changes()
    keyed = one_of_several(region)
    found.keys = _kept_under(region) if keyed else set()
    own = {f.place for f in region.captured if isinstance(f, Bind)}
    found.handed_in = _handed_in(region, own)
    held = _held(region, own, found.handed_in)
    captured_again = [
        f.order
        for f in region.life
        if isinstance(f, CaptureBegin) and f.begun is not region and f.begun.at == region.at and (keyed or not f.maybe)
    ]
    for fact in region.after:
        if fact.region is not None:
            continue
        if isinstance(fact, Op) and fact.name.endswith(".step") and (optimizer := scheduled(fact.receiver)) is not None:
            if places.lives_on(region, fact):
                for group in optimizers.groups(optimizer):
                    if not isinstance(group.items.get("lr"), Tensor):
                        found.places.setdefault((group.id, "lr"), []).append(fact)
        elif isinstance(fact, Bind) and fact.value is not None and not _same(fact.old, fact.value):
            if keyed and fact.place.kind in ("local", "global"):
                continue  # the key's business: graph-key
            replay = places.next_replay(region, fact)
            end = replay.order if replay is not None else 1 << 60
            if any(fact.order < order < end for order in captured_again) or not places.lives_on(region, fact):
                continue
            found.places.setdefault((fact.place.owner, fact.place.name), []).append(fact)
            for old in options(fact.old) if fact.old is not None else ():
                if isinstance(old, (Sequence, Mapping)) and old in held[fact.place]:
                    found.containers.setdefault(old.id, fact)
                elif isinstance(old, Instance) and isinstance(fact.value, Instance) and not old.external:
                    if _graph_of_its_own(region, fact.value):
                        continue
                    for one in held[fact.place]:
                        for name in _differing(one, fact.value) if isinstance(one, Instance) else ():
                            found.places.setdefault((one.id, name), []).append(fact)
            if isinstance(fact.owner, (Sequence, Mapping)):
                found.entries.setdefault(fact.owner.id, fact)
                if fact.place.name == "*":
                    found.containers.setdefault(fact.owner.id, fact)
        elif isinstance(fact, Keep) and fact.how in _GROWS and places.lives_on(region, fact):
            for container in options(fact.container):
                if isinstance(container, (Sequence, Mapping)) and container.born is None:
                    found.places.setdefault((container.id, "len"), []).append(fact)
        elif isinstance(fact, Return) and places.next_replay(region, fact) is not None:
            for value in options(fact.value):
                if isinstance(value, Instance) and value.made is not None and not value.external:
                    if _graph_of_its_own(region, value):
                        continue
                    found.records.setdefault(value.made, []).append((value, fact))
    return found


def _graph_of_its_own(region: Region, value: Value) -> bool:
    """True for an object that keeps another graph: what it holds was frozen in that one."""
    held, mine = queries.held_graphs(value), queries.graphs(region.graph)
    return bool(held) and not any(g in mine for g in held)


def _handed_in(region: Region, own: set[Place]) -> set[int]:
    found: set[int] = set()
    for place, ids in region.found_at.items():
        if place.kind in ("local", "global") and place.owner < region.since and place not in own:
            found |= ids
    return found


def _held(region: Region, own: set[Place], outer: set[int]) -> dict[Place, list[Instance | Sequence | Mapping]]:
    """What places held while the capture ran that are bound again after it, where captured code found the object there,
    or was handed it. A variable of an eager call, or of a loop over what the graph reads from elsewhere, is bound to
    one object after the other, and none of them changes."""
    found: dict[Place, list[Instance | Sequence | Mapping]] = {}
    for fact in region.after:
        if isinstance(fact, Bind) and fact.place not in found:
            old = options(fact.old) if fact.old is not None and fact.place not in own else ()
            seen = region.found_at.get(fact.place, outer)
            found[fact.place] = [o for o in old if isinstance(o, HELD) and o.id in seen]
    return found


def _differing(old: Instance, new: Instance) -> list[str]:
    """The scalar attributes that a new object of the same class holds other values in."""
    if old.cls is not new.cls:
        return []
    return [
        name
        for name, value in new.attrs.items()
        if isinstance(value, (Const, Host)) and name in old.attrs and not _same(old.attrs[name], value)
    ]


def one_of_several(region: Region) -> bool:
    """True if the graph is one of several in a container, each for its own values."""
    if any(True for _ in queries.keeps(region, region.life)):
        return True
    items = (f for f in region.life if isinstance(f, Bind) and f.place.kind == "item")
    mine = queries.graphs(region.graph)
    return any(g in mine for f in items for g in queries.held_graphs(f.value))


def _kept_under(region: Region) -> set[Place | int]:
    """What the key of the graph's place in a table was made of: another value finds another graph."""
    found: set[Place | int] = set()
    for fact in queries.keeps(region, region.after):
        if fact.key is not None:
            for part in [fact.key, *(fact.key.items if isinstance(fact.key, Sequence) else ())]:
                found |= origins(part)
                found |= {part.id} if isinstance(part, Instance) else set()
    return found


def _same(old: Value | None, new: Value) -> bool:
    """True if binding `new` over `old` changes nothing."""
    if old is new:
        return True
    if isinstance(old, Const) and isinstance(new, Const):
        return type(old.value) is type(new.value) and old.value == new.value
    if isinstance(old, Host) and isinstance(new, Host):
        return old.symbol is not None and old.symbol == new.symbol
    return False


def change_of(
    region: Region, scalar: Value, changes: Changes, own: set[Key], items: dict[Key, int], objects: dict[int, Instance]
) -> Fact | None:
    """The fact that changes what `scalar` was computed from, if a replay follows it."""
    for place in origins(scalar):
        key = (place.owner, place.name)
        if place in changes.keys or place.owner in changes.keys:
            continue
        if key in own:
            if (container := items.get(key)) is not None and container in changes.entries:
                return changes.entries[container]
            if container is not None and container in changes.containers:
                return changes.containers[container]
            continue
        if place.owner in changes.containers and place.kind == "item" and place.name != "len":
            return changes.containers[place.owner]
        if place.name == "*" and place.owner in changes.entries:
            return changes.entries[place.owner]
        if key in changes.places:
            return changes.places[key][0]
        if (star := (place.owner, "*")) in changes.places:
            return changes.places[star][0]
        owner = objects.get(place.owner)
        if owner is None or owner.id not in changes.handed_in:
            continue  # one of several of its class, in a model say: another like it is no newer one
        if owner.made is not None and owner.born is None and place.kind == "attribute":
            for record, fact in changes.records.get(owner.made, ()):
                new = record.attrs.get(place.name)
                if (
                    record.id != owner.id
                    and new is not None
                    and isinstance(new, (Const, Host))
                    and not _same(owner.attrs.get(place.name), new)
                    and type(record.cls) is type(owner.cls)
                ):
                    return fact
    return None
