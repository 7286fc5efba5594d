"""The key under which a graph is kept: arguments that the captured code used, and that the key leaves out.

A function that captures on its first call and replays on later ones freezes its arguments, and what it reads of objects
that it is given. A later call that replays the same graph with another number, flag or tuple of them was sent to the
wrong graph by its key; a graph that takes the place of one for other arguments has a key that does not tell them apart.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.syntax import Chain
from graphlint.runtime.watch.journal import (
    MISSING,
    Activation,
    Journal,
    Step,
    Watcher,
    attribute,
    host_value,
    lookup,
    resolve,
)
from graphlint.runtime.watch.leaves import arguments_of

#: A variable, or an attribute of one.
Name = tuple[str, ...]


@dataclass(slots=True, eq=False)
class Frozen:
    """Arguments of the call that captured, or of one around it. `stored` is where it put the graph under a key."""

    graph: int
    code: Any
    call: int
    values: dict[Name, Any]
    handed: frozenset[str]
    """Arguments that it hands on as they are."""
    objects: dict[str, Callable[[], Any]] = field(default_factory=dict)
    """Of attributes, the objects, None once they are gone: one object that changes is not another argument."""
    stored: frames.Site | None = None
    told: bool = False


class Keys(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.frozen: list[Frozen] = []
        self._loaded: dict[tuple[int, int], set[Name]] = {}
        self._names: dict[int, set[Name]] = {}
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)

    def begins(self, step: Step) -> None:
        if step.graph is not None:
            names = self._loaded.setdefault((step.graph, step.call), set())
            loads = set(_names(step.statement.loads))
            names.update(loads)
            self._names.setdefault(step.graph, set()).update(loads)
        elif self.frozen:
            replaced = [
                n for c in step.statement.stores if c.steps[-1][0] != "attr" for n in _graphs(resolve(step.frame, c))
            ]
            if replaced:
                step.notes["replaced"] = replaced

    def _graph(self, graph: Any) -> None:
        inner: Activation | None = None
        for activation in reversed(self.journal.stack):
            code, values = activation.frame.f_code, activation.frame.f_locals
            used = self._loaded.pop((graph.number, activation.number), set())
            direct: set[str] = set()
            if activation.step is not None:  # what it hands on to the code that captures, if that uses it by this name
                handed = {c.root for c in activation.step.statement.loads if not c.steps}
                handed |= {n[0] for n in used if len(n) == 1}
                used |= {n for n in self._names.get(graph.number, ()) if n[0] in handed}
                if inner is not None:
                    given = arguments_of(activation.step.statement, inner.frame.f_code).values()
                    direct = {a.id for a in given if isinstance(a, ast.Name)}
            parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            frozen = {
                name: _plain(value)
                for name in used
                if name[0] in parameters and host_value(value := _value(activation.frame, name))
            }
            if frozen and code.co_name != "<module>":
                reference = self.journal.identities.reference
                objects = {n[0]: reference(values[n[0]]) for n in frozen if len(n) > 1 and n[0] in values}
                self.frozen.append(Frozen(graph.number, code, activation.number, frozen, frozenset(direct), objects))
            inner = activation

    def done(self, step: Step) -> None:
        if step.graph is not None or not self.frozen or not self.journal.stack:
            return
        keyed = [c for c in step.statement.stores if c.steps[-1][0] != "attr"]
        if not keyed:
            return
        numbers = {n for c in keyed for n in _graphs(resolve(step.frame, c))}
        own, around = self.journal.stack[-1].number, {a.number for a in self.journal.stack[:-1]}
        for one in self.frozen:
            if one.stored is not None:
                continue
            if one.call == own:
                one.stored = step.site
            elif one.graph in numbers and one.call in around:
                one.values = {n: v for n, v in one.values.items() if n[0] in one.handed}
                one.stored = step.site
        self._replaced(step, numbers)

    def _replaced(self, step: Step, numbers: set[int]) -> None:
        """A graph took the place of one that was captured for other arguments."""
        for old in step.notes.pop("replaced", ()):
            before = {(one.code, name): v for one in self.frozen if one.graph == old for name, v in one.values.items()}
            for one in self.frozen:
                for name, value in one.values.items() if one.graph in numbers and one.graph != old else ():
                    known = before.get((one.code, name), value)
                    if known != value:
                        text = ".".join(name)
                        self.machine.note(
                            "key-omits", one.graph, site=step.site, text=text, old=known, new=value, weak=True
                        )
                        return

    def _replay(self, graph: Any) -> None:
        for one in self.frozen:
            if one.graph != graph.number or one.told or one.stored is None:
                continue
            for activation in self.journal.stack:
                if activation.frame.f_code is not one.code or activation.number == one.call:
                    continue
                for name, old in one.values.items():
                    if len(name) > 1 and name[0] in one.objects:
                        same = one.objects[name[0]]()
                        if same is not None and activation.frame.f_locals.get(name[0]) is same:
                            continue
                    now = _value(activation.frame, name)
                    if host_value(now) and _plain(now) != old:
                        one.told = True
                        text = ".".join(name)
                        self.machine.note("key-omits", one.graph, site=one.stored, text=text, old=old, new=_plain(now))


def _names(chains: tuple[Chain, ...]) -> list[Name]:
    return [
        (c.root, c.steps[0][1]) if c.steps else (c.root,)
        for c in chains
        if not c.steps or (len(c.steps) == 1 and c.steps[0][0] == "attr" and c.root != "self")
    ]


def _value(frame: FrameType, name: Name) -> Any:
    value = lookup(frame, name[0])
    return value if len(name) == 1 or value is MISSING else attribute(value, name[1])


def _graphs(value: Any) -> list[int]:
    """The numbers of the graphs that a value is, or holds."""
    members = getattr(value, "__dict__", None)
    inside = list(value) if isinstance(value, (tuple, list)) else list(members.values()) if members else []
    return [g.recording.number for g in (value, *inside[:32]) if getattr(g, "recording", None) is not None]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
