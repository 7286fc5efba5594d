"""Pinned host memory touched while an asynchronous copy is still to read or write it."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Fact, HostRead, Op, Replay, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Storage, Tensor, Value, options


@rule("GL024", "pinned-race", "error", "the host touches pinned memory that a copy of the graph still uses")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    yield from written_too_early(region)
    yield from read_too_early(region)


def pinned(value: Value | None) -> set[Storage]:
    if value is None:
        return set()
    return {o.storage for o in options(value) if isinstance(o, Tensor) and o.storage.pinned}


def copies(fact: Fact) -> tuple[set[Storage], set[Storage]]:
    """(pinned memory that an asynchronous copy at `fact` reads, pinned memory that it writes)."""
    if isinstance(fact, Write) and fact.how == "copy_":
        return pinned(fact.source), pinned(fact.target)
    if isinstance(fact, Op) and fact.name.endswith((".to", ".cuda")):
        flag = fact.kwargs.get("non_blocking")
        if isinstance(flag, Const) and flag.value:
            return pinned(fact.receiver), set()
    return set(), set()


def by_host(fact: Fact) -> set[Storage]:
    """Pinned memory that the host writes at `fact`."""
    if not isinstance(fact, Write) or fact.region is not None:
        return set()
    target = pinned(fact.target)
    from_gpu = isinstance(fact.source, Tensor) and fact.source.device == "cuda"
    return set() if from_gpu else target


def written_too_early(region: Region) -> Iterator[Problem]:
    """Replays, or copies that wait behind them, followed by a host write of their source with no wait between."""
    inside = {s: f for f in region.captured for s in copies(f)[0]}
    pending: dict[Storage, Fact] = {}
    queued = False
    seen: set[object] = set()
    for fact in _twice(region):
        if queries.waits(fact):
            pending.clear()
            queued = False
        elif isinstance(fact, Replay) and region in fact.replayed:
            pending |= dict.fromkeys(inside, fact)
            queued = True
        elif fact.region is None:
            for storage in by_host(fact):
                if storage in pending and fact.at not in seen:
                    seen.add(fact.at)
                    message = (
                        "the host writes pinned memory that an earlier copy may not have read yet: "
                        "wait for an event recorded after the copy, or for the stream"
                    )
                    source = inside.get(storage, pending[storage])
                    notes = (
                        Note(source.at, "copied here, asynchronously"),
                        Note(pending[storage].at, "still pending from here"),
                    )
                    yield Problem(fact.at, message, notes, function=fact.function)
            sources = copies(fact)[0]
            if sources and (queued or _replays_soon(region, fact)):
                pending |= dict.fromkeys(sources, fact)


def _replays_soon(region: Region, fact: Fact) -> bool:
    """A copy before a replay waits behind it from the second round on: only loops and repeated calls count."""
    return any(isinstance(f, Replay) and region in f.replayed for f in queries.rest_of_call(region, fact))


def _twice(region: Region) -> list[Fact]:
    """What comes after the capture; a method that replays and was seen once only may be called again."""
    after = list(region.after)
    replays = [f for f in after if isinstance(f, Replay) and region in f.replayed]
    if len(replays) == 1 and replays[0].chain and not replays[0].loops:
        once = [f for f in after if queries.inside(f, replays[0])]
        # Its callers go on to other things before they call again, and may wait there.
        waited = any(queries.waits(f) for f in after if f.order > replays[0].order)
        return after if waited else [*after, *once]
    return after


def read_too_early(region: Region) -> Iterator[Problem]:
    results = {s: f for f in region.captured for s in copies(f)[1]}
    if not results:
        return
    replayed: Fact | None = None
    for fact in region.after:
        if isinstance(fact, Replay) and region in fact.replayed:
            replayed = fact
        elif replayed is not None and queries.waits(fact):
            replayed = None
        elif replayed is not None and isinstance(fact, HostRead) and pinned(fact.value) & set(results):
            message = (
                "reads pinned memory that the replay copies its result to, before the replay is over: wait for it first"
            )
            copy = next(results[s] for s in pinned(fact.value) if s in results)
            notes = (Note(copy.at, "copied here, asynchronously"), Note(replayed.at, "replayed here"))
            yield Problem(fact.at, message, notes, function=fact.function)
            return
