"""Graphs that a full table resets, and that the table itself or another place hands out all the same."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Bind, Fact, Keep, Replay
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Instance


def replayed_after_eviction(region: Region) -> Iterator[Problem]:
    """A full cache resets a graph, and another place that holds it, or the table itself, hands it out all the same."""
    mine = queries.graphs(region.graph)
    resets = [f for f in region.after if queries.resets(f, mine)]
    for reset in resets if len(mine) == 1 else ():
        if not reset.maybe:
            continue  # told by its order alone
        around = [*queries.start_of_call(region, reset), *queries.rest_of_call(region, reset)]
        flags = {f.place for f in around if isinstance(f, Bind) and f.place.kind == "attribute"}
        left = any(_leaves(f, mine[0]) for f in around)
        for replay in region.after:
            if not isinstance(replay, Replay) or replay.order < reset.order or queries.inside(replay, reset):
                continue
            if region not in replay.replayed or queries.asked_before(region, replay, flags):
                continue
            held = still_held(region, reset, replay, mine[0]) if left else left_in_table(region, reset, replay, around)
            if held is not None:
                message = "replays a graph that was reset when its table was full, which raises: " + (
                    "what holds it must let go of it, too" if left else "take it out of the table as well"
                )
                notes = (Note(reset.at, "reset here"), Note(held.at, "still held here"), *region.way(replay))
                yield Problem(replay.at, message, notes, function=replay.function)
                return


def _leaves(fact: Fact, graph: Instance) -> bool:
    """True if a container lets go of `graph` at `fact`."""
    return isinstance(fact, Bind) and fact.value is None and graph in queries.held_graphs(fact.old)


def still_held(region: Region, reset: Fact, replay: Replay, graph: Instance) -> Fact | None:
    """Where a name or an attribute that is replayed through got the graph, before it was reset."""
    if queries.graphs(replay.graph) != [graph]:
        return None
    for place in replay.through:
        binds = [f for f in region.life if isinstance(f, Bind) and f.place == place and f.order < replay.order]
        if binds and binds[-1].order < reset.order and queries.held_graphs(binds[-1].value) == [graph]:
            return binds[-1]
    return None


def left_in_table(region: Region, reset: Fact, replay: Replay, around: list[Fact]) -> Fact | None:
    """Where a capture put the graph into a table that never lets go of it, though the same call resets older ones."""
    graph = queries.graphs(region.graph)[0]
    for fact in around:
        if isinstance(fact, Keep) and fact.order < reset.order and graph in queries.held_graphs(fact.value):
            table = getattr(fact.container, "id", 0)
            later = [f for f in region.life if isinstance(f, Bind) and getattr(f.owner, "id", -1) == table]
            through = any(p.owner == table for p in replay.through)
            if through and not any(f.order > reset.order and queries.inside(f, reset) for f in later):
                return fact
    return None
