"""A function that captures on its first call and replays on later ones is called a second time.

Objects that capture are used again as their users would use them. A function has no object: what it captured waits in
a table or variable of its module, and without a second call no replay would be seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.fact import Bind, Keep, Replay
from graphlint.value import Instance, Value, options, parts

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine


def waits(m: Machine) -> bool:
    """True if a graph was captured, is held by a module, and no replay of it was seen."""
    replayed = {r for f in m.life if isinstance(f, Replay) for r in f.replayed}
    waiting = {r.graph.id for r in m.regions if r not in replayed and isinstance(r.graph, Instance)}
    return bool(waiting) and any(graph in waiting for graph in _held(m))


def _held(m: Machine) -> Iterator[int]:
    """The objects that were put into variables of modules, or into tables that stand in such variables."""
    tables = {id(v) for scope in m.names.scopes.values() for v in scope.variables.values()}
    for fact in m.life:
        if isinstance(fact, Keep):
            kept = any(id(o) in tables for o in options(fact.container))
        else:
            kept = isinstance(fact, Bind) and fact.place.kind == "global"
        if kept and (value := getattr(fact, "value", None)) is not None:
            yield from _objects(value)


def _objects(value: Value) -> Iterator[int]:
    for option in options(value):
        for held in (option, *parts(option)):
            if isinstance(held, Instance):
                yield held.id
