"""A place that the graph reads is bound to other memory: `self.x = new`, `d[k] = new`, `param.data = new`."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Fact
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.value import Const, Instance, Mapping, Place, Sequence, Storage, Tensor, Unknown, Value, options, tensors

from .notes import problem


def rebound(region: Region) -> Iterator[Problem]:
    """`self.x = new`, `d[k] = new`, a loop variable, `param.data = new`."""
    # A graphed callable copies what it is called with into its sample arguments.
    copied = queries.storages(region.options.get("sample_args"), 4)
    reads = {place: read for place, read in places.reads(region).items() if read[1].storage not in copied}
    holders = {place.owner for place in reads}
    named = {tensor.storage for place, (_, tensor) in reads.items() if place.kind != "local"}
    lent = places.borrowed(region) - copied
    for fact in region.after:
        if (
            not isinstance(fact, Bind)
            or fact.region is not None
            or fact.how.startswith(("del", "pop", "clear", "remove"))
        ):
            continue
        if places.is_empty(fact.value) or fact.value is None or _constructs(fact) or _in_place(fact):
            continue
        if fact.place.name == "data" and isinstance(fact.owner, Tensor):
            stale = {fact.owner.storage} & lent
            new = queries.storages(fact.value)
            if stale and not new & stale and places.lives_on(region, fact):
                message = f"`{fact.text}` is given other memory than the graph reads: copy into it with `copy_()`"
                yield problem(region, fact, message)
        elif fact.place in reads:
            was = queries.storages(fact.old, 0) & lent or {reads[fact.place][1].storage}
            if _replaces(region, fact, was) and not any(places.workspace(region, fact, s) for s in was):
                yield problem(region, fact, _message(fact))
        elif fact.place.kind in ("attribute", "item") and (direct := _owned(fact.old) & lent - named):
            # Captured code got it as an argument, which was read from here.
            if _replaces(region, fact, direct) and not any(places.workspace(region, fact, s) for s in direct):
                yield problem(region, fact, _message(fact))
        elif (
            _same_kind(region, fact)
            and (held := _container_storages(fact.old, holders, reads))
            and _replaces(region, fact, held)
            and not _blank(fact.value)
            and not all(places.refreshed(region, s, region.end, 1 << 60) for s in held)
        ):
            yield problem(region, fact, _message(fact))


def _constructs(fact: Bind) -> bool:
    """True for what a constructor gives its own object: nothing was captured with that object before."""
    return fact.text.startswith("self.") and fact.function.rpartition(".")[2] == "__init__"


def _in_place(fact: Bind) -> bool:
    """True for `self.x += 1` of what is not known: a tensor keeps its memory."""
    value = fact.value
    augmented = len(fact.how) > 1 and fact.how.endswith("=")
    return augmented and value is not None and all(isinstance(o, Unknown) for o in options(value))


def _blank(value: Value | None) -> bool:
    """True for a record without any tensor: it clears, it does not replace."""
    found = [o for o in options(value) if isinstance(o, Instance)] if value is not None else []
    return bool(found) and all(
        not o.external and all(isinstance(a, Const) for a in o.attrs.values()) for o in found
    )  # fmt: skip


def _owned(value: Value | None) -> set[Storage]:
    return {s for s in queries.storages(value, 0) if s.kind != "unknown"}


def _message(fact: Bind) -> str:
    name = f"`{fact.text}`" if fact.text else "this name"
    return f"{name} is bound to a new tensor, but the graph goes on reading the one it was captured with: use `copy_()`"


def _replaces(region: Region, fact: Bind, old: set[Storage]) -> bool:
    """True if `fact` puts other memory in the place of `old`, and a replay follows without a refresh of that."""
    value = fact.value
    assert value is not None
    kinds = [o for o in options(value) if not (isinstance(o, Const) and o.value is None)]
    if not kinds or not all(isinstance(o, (Tensor, Unknown, Mapping, Sequence, Instance)) for o in kinds):
        return False
    new = queries.storages(value)
    if new and new <= old:
        return False
    if old <= new or any(places.captured_elsewhere(region, s) for s in new - old):
        return False
    if not places.lives_on(region, fact) or places.set_up(region, fact):
        return False
    replay = places.next_replay(region, fact)
    if fact.how == "for" and replay is not None and not _in_its_loop(replay, fact):
        return False  # a walk over what is there already: what the graph reads is still where it was
    if fact.place.kind == "local" and (replay is None or not queries.inside(replay, fact)):
        return False  # the name is gone before the replay
    end = replay.order if replay is not None else 1 << 60
    return not any(places.refreshed(region, s, fact.order, end) for s in old)


def _in_its_loop(replay: Fact, target: Fact) -> bool:
    """True if the body of the loop that binds `target` replays."""
    depth = len(target.loops)
    return [loop for loop, _ in replay.loops[:depth]] == [loop for loop, _ in target.loops]


def _same_kind(region: Region, fact: Bind) -> bool:
    """True if `fact` puts one container or record in the place of another (not: a loop over modules)."""
    if fact.place.kind == "local" and fact.function != region.function:
        return False
    olds = (
        [o for o in options(fact.old) if isinstance(o, (Mapping, Sequence, Instance))] if fact.old is not None else []
    )
    if fact.place.kind in ("local", "global") and any(
        t.storage.kind == "parameter" for o in olds for t in tensors(o, 2)
    ):
        return False
    for new in options(fact.value) if fact.value is not None else ():
        if isinstance(new, Unknown) or any(type(new) is type(o) for o in olds):
            return True
    return False


def _container_storages(old: Value | None, holders: set[int], reads: dict[Place, tuple[Fact, Tensor]]) -> set[Storage]:
    """The captured memory that was read out of the container or object which `old` is."""
    if old is None:
        return set()
    owners = {o.id for o in options(old) if isinstance(o, (Mapping, Sequence, Instance))}
    if not owners & holders:
        return set()
    return {tensor.storage for place, (_, tensor) in reads.items() if place.owner in owners}
