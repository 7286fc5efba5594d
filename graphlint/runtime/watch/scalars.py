"""Python numbers that reach captured work, and whether the program changes them between replays.

For every statement that launches captured work, the numbers it loads are followed to where the program keeps them
(`self.temperature`, `group["lr"]`, through local variables and arguments). Before each replay they are read again: a
number that is now another one was baked into the graph.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine, off
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, host_value
from graphlint.runtime.watch.leaves import Leaf, Leaves
from graphlint.runtime.watch.stores import Stores


@dataclass(slots=True, eq=False)
class Use:
    """A statement that gave numbers to captured work."""

    graph: int
    site: frames.Site
    leaves: tuple[Leaf, ...]
    stale: set[str] = field(default_factory=set)


class Scalars(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.leaves = Leaves.of_journal(journal)
        self.stores = next(w for w in journal.watchers if isinstance(w, Stores))
        self.values: dict[Any, set[Any]] = {}
        """Of each variable that captures used, the numbers that it had."""
        self.uses: dict[int, list[Use]] = {}
        self.given: dict[int, dict[str, Any]] = {}
        """Host values that the captured functions were given, by parameter."""
        self.host_scalars: dict[int, list[tuple[weakref.ref[Any], Any, frames.Site]]] = {}
        """CPU tensors without dimensions: their value is part of the launch."""
        machine.on_call.append(self._call)
        self._captured: set[int] = set()
        machine.on_graph.append(lambda graph: self._captured.add(graph.number))
        machine.on_replay.append(self._replay)

    def entered(self, activation: Activation) -> None:
        code = activation.frame.f_code
        if activation.parent is None or activation.number == 0 or not self.machine.capturing():
            return
        values_given = self.given.setdefault(self.machine.capture.number, {})
        for name in code.co_varnames[: code.co_argcount]:
            value = activation.frame.f_locals.get(name)
            if host_value(value) and not isinstance(value, str):
                values_given.setdefault(name, _plain(value))

    # ------------------------------------------------------------ captured work
    def _call(self, func: Any, name: str, held: Any, changes: Any, fresh: Any, stream: int) -> None:
        machine = self.machine
        if machine.capture is None or not machine.capturing():
            return
        step = self.journal.current
        if step is None or step.graph is None:
            return
        for value in machine.here.arguments:
            if isinstance(value, torch.Tensor) and value.dim() == 0 and not machine.holds(value):
                with off():
                    known = (weakref.ref(value), value.item(), step.site)
                self.host_scalars.setdefault(step.graph, []).append(known)
        asked = len(step.notes.get("returned", ()))  # properties may be asked after the first work was launched
        if step.notes.get("used") == asked:
            return
        step.notes["used"] = asked
        leaves = self.stores.outside(step.graph, self.leaves.used(self.journal.stack[-1], step))
        for leaf in leaves:
            if leaf.variable:
                self.values.setdefault(_variable(leaf), set()).add(_plain(leaf.value))
        if leaves and "use" in step.notes:
            step.notes["use"].leaves = leaves
        elif leaves:
            step.notes["use"] = Use(step.graph, step.site, leaves)
            self.uses.setdefault(step.graph, []).append(step.notes["use"])

    def begins(self, step: Step) -> None:
        if step.graph is None and self._captured and self.journal.stack:
            self.journal.stack[-1].data.setdefault("lines", set()).add(step.site)

    def _for_others(self, graph: Any) -> None:
        """A replay for an object that carries another value than the captured functions were given."""
        given = self.given.get(graph.number)
        if not given:
            return
        for activation in self.journal.stack:
            if activation.frame.f_code.co_name == "<module>":
                continue
            code, values = activation.frame.f_code, activation.frame.f_locals
            parameters = code.co_varnames[: code.co_argcount]
            for name in (n for n in given if n in parameters):
                if self._other(graph, activation, given, name, values.get(name)):
                    return
            for owner in list(values.values()):
                members = getattr(owner, "__dict__", None)
                if not isinstance(members, dict) or isinstance(owner, torch.nn.Module):
                    continue
                for name in (n for n in given if n in members):
                    if self._other(graph, activation, given, name, members[name]):
                        return

    def _other(self, graph: Any, activation: Activation, given: dict[str, Any], name: str, now: Any) -> bool:
        now = _plain(now)
        if not host_value(now) or now == given[name] or type(now) is not type(given[name]):
            return False
        lines = tuple(activation.data.get("lines", ()))
        self.machine.note("replayed-for-others", graph.number, lines=lines, text=name, old=given[name], new=now)
        return True

    def _replay(self, graph: Any) -> None:
        self._for_others(graph)
        for reference, old, site in self.host_scalars.get(graph.number, ()):
            tensor = reference()
            if tensor is not None:
                with off():
                    now = tensor.item()
                if now != old:
                    self.machine.note(
                        "number-changed", graph.number, site=site, text="the CPU scalar", old=old, new=now
                    )
        for use in self.uses.get(graph.number, ()):
            for leaf in use.leaves:
                if leaf.random is not None:
                    if leaf.text not in use.stale:
                        use.stale.add(leaf.text)
                        self.machine.note("random-baked", graph.number, site=leaf.random, use=use.site, text=leaf.text)
                    continue
                now = self.leaves.now(leaf, graph.number)
                # a variable goes on to other numbers while each graph that was captured keeps its own
                if now is MISSING or (leaf.variable and _plain(now) in self.values[_variable(leaf)]):
                    continue
                if leaf.text not in use.stale:
                    use.stale.add(leaf.text)
                    self.machine.note(
                        "number-changed",
                        graph.number,
                        site=use.site,
                        text=leaf.text,
                        old=leaf.value,
                        new=now,
                        weak=leaf.weak,
                    )


def _variable(leaf: Leaf) -> Any:
    return (leaf.text, leaf.root()) if leaf.call else leaf.key


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
