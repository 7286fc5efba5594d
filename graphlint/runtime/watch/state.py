"""State that is made once: born inside a capture, memos that a warm-up filled, what warm-ups changed."""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate.arena import Block
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import cached_at
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, resolve
from graphlint.runtime.watch.scratch import SETS, Scratch

#: Tensors whose changes outside of captures are remembered, and how many changes of each.
MAX_CHANGED, KEPT_CHANGES = 5000, 6
#: Bytes of each that are compared with what stood there before.
MAX_COMPARED = 1 << 26
#: So many blocks are told apart.
MAX_SOURCES = 1 << 14


class Sources:
    """Which memory the content of other memory was made of, call by call. A number has one bit for each block."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._bits: dict[tuple[int, int], int] = {}
        """An address is handed on: a block is known by the time at which it was made, too."""
        self._made_of: dict[int, int] = {}
        machine.on_free.append(self._freed)

    def call(self, held: list[torch.Tensor], changes: list[torch.Tensor], fresh: list[torch.Tensor], sets: bool) -> int:
        """Follows one call; gives what it read."""
        changed = [_storage_of(t).data_ptr() for t in changes]
        read = 0
        for t in held:
            address = _storage_of(t).data_ptr()
            if not (sets and address in changed):
                read |= self._made_of.get(address, 0) | self._bit(address)
        for t in fresh:
            self._made_of[_storage_of(t).data_ptr()] = read
        for address in changed:
            self._made_of[address] = read if sets else self._made_of.get(address, 0) | read
        return read

    def _freed(self, block: Block) -> None:
        self._made_of.pop(block.start, None)

    def _bit(self, address: int) -> int:
        key = address, self.machine.made.get(address, 0)
        if key not in self._bits:
            if len(self._bits) >= MAX_SOURCES:
                return 0
            self._bits[key] = 1 << len(self._bits)
        return self._bits[key]

    def addresses(self, number: int) -> set[int] | None:
        """Of what is still there; None where not all was followed."""
        if len(self._bits) >= MAX_SOURCES:
            return None
        made = self.machine.made
        return {address for (address, order), bit in self._bits.items() if number & bit and made.get(address) == order}


@dataclass(slots=True, eq=False)
class Born:
    """A tensor stored where nothing was: inside the capture, or in a warm-up before it."""

    at: frames.Site
    address: int
    graph: int | None
    order: int
    function: str
    sources: frozenset[int]
    text: str
    told: bool = False
    memo: bool = False
    """A caching decorator keeps it, so that later calls do not enter the function."""


@dataclass(slots=True, eq=False)
class EagerWrite:
    """A call outside of captures that changed a tensor by what it held."""

    order: int
    at: tuple[frames.Site, ...]
    sources: int
    """What it was made of, as `Sources` counts it."""


@dataclass(slots=True)
class Region:
    number: int
    inputs: set[int]
    made: set[int]
    functions: set[str]
    begun: int = 0
    replayed: bool = False
    writes: dict[int, int] = field(default_factory=dict)


class State(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.born: list[Born] = []
        self.regions: dict[int, Region] = {}
        self.last_write: dict[int, int] = {}
        self._functions: dict[int, set[str]] = {}
        self._writes: dict[int, dict[int, int]] = {}
        machine.on_call.append(self._call)
        self._reads: dict[int, set[int]] = {}
        self.scratch = Scratch.of_journal(journal)
        self.sources = Sources(machine)
        self._set_at: dict[int, int] = {}
        """When an address was last set by the program, as placeholders are when the data is there."""
        self._before: dict[int, int] = {}
        """What stood at an address before the first of its changes."""
        if not machine.fake:
            machine.before_change.append(self._about_to_change)
        self._changed: dict[int, list[EagerWrite]] = {}
        """Of each address, its last changes outside of captures; none once it was set anew."""
        self._memos: list[Activation] = []
        self._dropped: list[tuple[int, frames.Site | None, str, tuple[frames.Site, ...]]] = []
        """Inputs that a model library let go of in a capture: the graph, the user's line, the library's function, the
        way to that line."""
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)
        machine.on_free.append(self._freed)

    def entered(self, activation: Activation) -> None:
        code = activation.frame.f_code
        if activation.number and not self.machine.capturing():
            line = cached_at(code.co_filename, code.co_firstlineno, code.co_name)
            if line is not None:
                site = frames.Site(code.co_filename, line, code.co_name)
                activation.data.update(memo=site, memo_reads=set())
                self._memos.append(activation)
        if self.machine.capture is not None and self.machine.capturing():
            self._functions.setdefault(self.machine.capture.number, set()).add(_name(activation.frame))

    def _call(self, func: Any, name: str, held: list[Any], changes: list[Any], fresh: Any, stream: int) -> None:
        machine = self.machine
        for activation in self.journal.running:
            step = activation.step
            if step is not None and "watch" in step.notes:
                step.notes.setdefault("reads", set()).update(_storage_of(t).data_ptr() for t in held)
        capture = machine.capture
        if capture is not None and machine.capturing():
            self._reads.setdefault(capture.number, set()).update(_storage_of(t).data_ptr() for t in held)
            writes = self._writes.setdefault(capture.number, {})
            for t in changes:
                writes[_storage_of(t).data_ptr()] = machine.order
        else:
            made_of = self.sources.call(held, changes, fresh, name in SETS)
            for t in changes:
                if machine.holds(t):
                    address = _storage_of(t).data_ptr()
                    self.last_write[address] = machine.order
                    if name in SETS:
                        self._set_at[address] = machine.order
                        self._changed.pop(address, None)
                        self._before.pop(address, None)
                    elif len(self._changed) < MAX_CHANGED:
                        known = self._changed.setdefault(address, [])
                        known.append(EagerWrite(machine.order, frames.user_sites(8), made_of))
                        del known[:-KEPT_CHANGES]
            for memo in self._memos:
                memo.data["memo_reads"].update(_storage_of(t).data_ptr() for t in held)

    def _about_to_change(self, changes: list[torch.Tensor]) -> None:
        for t in changes:
            address = _storage_of(t).data_ptr()
            if self.machine.holds(t) and address not in self._before and len(self._before) < MAX_CHANGED:
                self._before[address] = self._content(address)

    def _content(self, address: int) -> int:
        block = self.machine.arena.used.get(address)
        return zlib.crc32(ctypes.string_at(block.start, min(block.wanted, MAX_COMPARED))) if block is not None else 0

    def _stays(self, graph: Any, address: int) -> bool:
        """Whether what a warm-up did to an input is still there, and was another value than before."""
        if not self.scratch.reads(graph.number, address):
            return False
        return address not in self._before or self._before[address] != self._content(address)

    def _freed(self, block: Any) -> None:
        """A library that binds what a capture made over what the capture read, as a cache that grows does."""
        capture = self.machine.capture
        if capture is None or block.start in capture.own or not self.machine.capturing():
            return
        if block.start in self._reads.get(capture.number, ()):
            sites = frames.user_sites()
            if sites and frames.is_library(sites[0].path):
                way = self._way(capture.number)
                self._dropped.append((capture.number, frames.in_user_code(sites), sites[0].function, way))

    def _way(self, graph: int) -> tuple[frames.Site, ...]:
        """The user's lines that run inside a capture, innermost first."""
        steps = [a.step for a in reversed(self.journal.stack)]
        return tuple(step.site for step in steps if step is not None and step.graph == graph)

    def returned(self, activation: Activation, value: Any) -> None:
        site = activation.data.get("memo")
        if site is None:
            return
        self._memos.remove(activation)
        if isinstance(value, torch.Tensor) and self.machine.holds(value):
            reads = frozenset(activation.data["memo_reads"])
            address = _storage_of(value).data_ptr()
            self.born.append(Born(site, address, None, self.machine.order, "", reads, f"{site.function}()", memo=True))

    def _graph(self, graph: Any) -> None:
        self._reads.pop(graph.number, None)
        self.regions[graph.number] = Region(
            graph.number,
            set(graph.inputs),
            set(graph.made),
            self._functions.pop(graph.number, set()),
            graph.span[0],
            False,
            self._writes.pop(graph.number, {}),
        )

    def _refreshed(self, region: Region, address: int, change: EagerWrite) -> bool:
        """Whether a change was made of other inputs that hold other data by now: placeholders."""
        made_of = self.sources.addresses(change.sources)
        if made_of is None:
            return True
        return any(self._set_at.get(a, 0) > change.order for a in (made_of & region.inputs) - {address})

    # ------------------------------------------------------------ what is stored where nothing was
    def begins(self, step: Step) -> None:
        if not step.statement.stores:
            return
        step.notes["watch"] = True
        if step.graph is not None or not self.regions:
            empty = []
            for chain in step.statement.stores:
                owner, old = resolve(step.frame, chain.owner), resolve(step.frame, chain)
                if owner is not MISSING and (old is MISSING or old is None):
                    empty.append(chain)
            step.notes["empty"] = empty

    def done(self, step: Step) -> None:
        for chain in step.notes.get("empty", ()):
            new = resolve(step.frame, chain)
            if isinstance(new, torch.Tensor) and self.machine.holds(new):
                reads = frozenset(step.notes.get("reads", ()))
                address = _storage_of(new).data_ptr()
                name = _name(step.frame)
                self.born.append(Born(step.site, address, step.graph, self.machine.order, name, reads, chain.text))

    def _replay(self, graph: Any) -> None:
        region = self.regions.get(graph.number)
        if region is None:
            return
        if not region.replayed:
            region.replayed = True
            changed = sorted(region.inputs & self._changed.keys())
            stays = {address for address in changed if self._stays(graph, address)}
            # what one call changes together was changed if any of it was: zeros leave a mean of zero as it is
            calls = {c.at[1:] for address in stays for c in self._changed[address] if c.order < region.begun} - {()}
            for address in changed:
                for change in self._changed[address]:
                    along = change.at[1:] in calls and self.scratch.reads(graph.number, address)
                    if change.order >= region.begun or not (address in stays or along):
                        continue
                    site = frames.in_user_code(change.at)
                    if site is not None and self._refreshed(region, address, change):
                        self.machine.log(
                            events.Note, at=change.at, name="state-warmed", graph=graph.number, data={"site": site}
                        )
        for number, site, function, way in self._dropped:
            if number == graph.number:
                self.machine.note("library-state-replaced", number, site=site, function=function, way=way)
        self._dropped = [entry for entry in self._dropped if entry[0] != graph.number]
        for born in self.born:
            if born.told:
                continue
            if born.graph == graph.number:
                again = region.writes.get(born.address, 0)
                if born.address in region.made and again > born.order and graph.replays >= 1:
                    born.told = True
                    self.machine.note("state-born-in-capture", graph.number, site=born.at, text=born.text)
            elif (
                born.graph is None
                and born.address in region.inputs
                and (born.memo or born.function in region.functions)
            ):
                fresher = [a for a in born.sources if self.last_write.get(a, 0) > born.order and a != born.address]
                if fresher and self.last_write.get(born.address, 0) <= born.order and graph.replays >= 1:
                    born.told = True
                    self.machine.note("memo-filled-before-capture", graph.number, site=born.at, text=born.text)


def _name(frame: Any) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_code.co_firstlineno}"
