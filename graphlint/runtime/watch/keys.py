"""The key under which a graph is kept: arguments that the captured code used, and that the key leaves out.

A function that captures on its first call and replays on later ones freezes its arguments. A later call that replays
the same graph with another number, flag or tuple of them was sent to the wrong graph by its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.watch.journal import MISSING, Journal, Step, Watcher, host_value


@dataclass(slots=True, eq=False)
class Frozen:
    """Arguments of the call that captured. `stored` is where it put the graph under a key."""

    graph: int
    code: Any
    call: int
    values: dict[str, Any]
    stored: frames.Site | None = None
    told: bool = False


class Keys(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.frozen: list[Frozen] = []
        self._loaded: dict[tuple[int, int], set[str]] = {}
        self._names: dict[int, set[str]] = {}
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)

    def begins(self, step: Step) -> None:
        if step.graph is not None:
            names = self._loaded.setdefault((step.graph, id(step.frame)), set())
            loads = {c.root for c in step.statement.loads if not c.steps}
            names.update(loads)
            self._names.setdefault(step.graph, set()).update(loads)

    def _graph(self, graph: Any) -> None:
        for activation in self.journal.stack:
            code, values = activation.frame.f_code, activation.frame.f_locals
            used = self._loaded.pop((graph.number, id(activation.frame)), set())
            if activation.step is not None:  # what it hands on to the code that captures, if that uses it by this name
                handed = {c.root for c in activation.step.statement.loads if not c.steps}
                used |= handed & self._names.get(graph.number, set())
            given = {
                name: _plain(values[name])
                for name in code.co_varnames[: code.co_argcount]
                if name in used and host_value(values.get(name, MISSING))
            }
            if given and code.co_name != "<module>":
                self.frozen.append(Frozen(graph.number, code, activation.number, given))

    def done(self, step: Step) -> None:
        if step.graph is not None or not self.frozen or not self.journal.stack:
            return
        keyed = any(c.steps[-1][0] != "attr" for c in step.statement.stores)
        for one in self.frozen:
            if keyed and one.stored is None and one.call == self.journal.stack[-1].number:
                one.stored = step.site

    def _replay(self, graph: Any) -> None:
        for one in self.frozen:
            if one.graph != graph.number or one.told or one.stored is None:
                continue
            for activation in self.journal.stack:
                if activation.frame.f_code is not one.code or activation.number == one.call:
                    continue
                for name, old in one.values.items():
                    now = activation.frame.f_locals.get(name, MISSING)
                    if host_value(now) and _plain(now) != old:
                        one.told = True
                        self.machine.note("key-omits", one.graph, site=one.stored, text=name, old=old, new=_plain(now))


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
