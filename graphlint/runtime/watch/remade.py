"""A line that made a graph's input and runs again: the program means the new tensor, the graph reads the old one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.emulate.arena import Block
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.watch.journal import Journal, Watcher


@dataclass(slots=True, eq=False)
class Remade:
    graph: int
    old: int
    new: int
    site: frames.Site
    under: frozenset[int]
    """The calls that were under way."""
    order: int


class RemadeInputs(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.births: dict[frames.Site, list[tuple[int, int]]] = {}
        self.remade: list[Remade] = []
        self.read: set[int] = set()
        self.last_write: dict[int, int] = {}
        machine.on_graph.append(self._graph)
        machine.on_make.append(self._made)
        machine.on_call.append(self._call)
        machine.on_replay.append(self._replay)

    def _graph(self, graph: Any) -> None:
        for address in graph.inputs:
            site = frames.in_user_code(self.machine.births.get(address, ()))
            if site is not None and address in self.machine.owners:
                self.births.setdefault(site, []).append((graph.number, address))

    def _made(self, block: Block, why: str) -> None:
        if not self.births or self.machine.capture is not None:
            return
        site = frames.in_user_code(self.machine.births.get(block.start, ()))
        if site is None or site not in self.births:
            return
        under = frozenset(a.number for a in self.journal.stack if a.frame.f_code.co_name != "<module>")
        for graph, old in self.births[site]:
            if old != block.start and len(self.remade) < 500:
                self.read.discard(block.start)
                self.remade.append(Remade(graph, old, block.start, site, under, self.machine.order))

    def _call(self, func: Any, name: str, held: list[Any], changes: list[Any], fresh: Any, stream: int) -> None:
        if not self.remade or self.machine.capture is not None:
            return
        for t in held:
            self.read.add(_storage_of(t).data_ptr())
        for t in changes:
            self.last_write[_storage_of(t).data_ptr()] = self.machine.order

    def _replay(self, graph: Any) -> None:
        here = {a.number for a in self.journal.stack if a.frame.f_code.co_name != "<module>"}
        used = self.machine.arena.used
        for one in self.remade:
            if one.graph != graph.number or one.new in self.read or not here & one.under:
                continue
            old, new = used.get(one.old), used.get(one.new)
            if old is None or new is None or old.wanted != new.wanted or self.machine.made.get(one.new, 0) > one.order:
                continue
            if self.last_write.get(one.old, 0) > one.order:
                continue
            if ctypes.string_at(old.start, old.wanted) != ctypes.string_at(new.start, new.wanted):
                self.machine.note("recreated-input", graph.number, site=one.site)
