"""A process group destroyed while a graph that holds its collectives is alive."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Bind, Fact, Leave, Op
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Instance, Place

COLLECTIVES = frozenset({
    "all_reduce", "all_gather", "all_gather_into_tensor", "all_to_all", "all_to_all_single", "broadcast", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "gather", "scatter", "send", "recv", "isend", "irecv", "barrier",
    "batch_isend_irecv", "all_reduce_coalesced",
})  # fmt: skip


def collective(fact: Fact) -> bool:
    if not isinstance(fact, Op):
        return False
    head, _, last = fact.name.rpartition(".")
    return last in COLLECTIVES and ("distributed" in head or "deepspeed" in head)


@rule("GL026", "graph-teardown", "error", "a process group is destroyed while a graph holds its collectives")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    calls = [f for f in region.captured if collective(f)]
    mine = queries.graphs(region.graph)
    begin = queries.begin_fact(region)
    if not calls or not mine or begin is None:
        return
    held: set[Place] = set()
    for fact in region.life:
        if fact.order <= begin.order and not isinstance(fact, (Bind, Leave)):
            continue
        if isinstance(fact, Bind):
            if any(g in mine for g in queries.held_graphs(fact.value)):
                held.add(fact.place)
            elif fact.place.name == "*" and fact.value is None:
                held = {p for p in held if p.owner != fact.place.owner}
            else:
                held.discard(fact.place)
                emptied = fact.value is None or (isinstance(fact.value, Const) and fact.value.value is None)
                if emptied and any(g in mine for g in queries.held_graphs(fact.old)):
                    return  # an owner lets go of it, and of what else it holds
        elif isinstance(fact, Leave):
            held = {p for p in held if p.owner != fact.scope}
        elif isinstance(fact, Op) and fact.region is None:
            last = fact.name.rsplit(".", 1)[-1]
            if last == "reset" and fact.receiver in mine and (begin.maybe or not fact.maybe):
                return
            if last in ("clear", "pop", "popitem") and _holds(fact, mine):
                return
            if fact.name.endswith("distributed.destroy_process_group"):
                if held:
                    message = (
                        "destroys the process group while a graph still holds its collectives: NCCL waits "
                        "for the graph "
                        "for ever; `reset()` or drop the graph first"
                    )
                    notes = (Note(region.at, "captured here"), Note(calls[0].at, "collective captured here"))
                    yield Problem(fact.at, message, notes, function=fact.function)
                return


def _holds(fact: Op, mine: list[Instance]) -> bool:
    values = (fact.receiver, fact.result)
    return any(g in mine for v in values for g in queries.held_graphs(v)) or not queries.held_graphs(fact.receiver)
