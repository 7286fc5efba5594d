"""Static inputs between replays: which of their elements were written, by whom, in which order, and what a pinned host
buffer goes through while a copy from it is under way."""

from __future__ import annotations

import ctypes
import functools
import weakref
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.arena import Block
from graphlint.runtime.emulate.machine import Machine, aside
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.watch.counterfactual import along, another_token, matters, padded_axis, rows, states
from graphlint.runtime.watch.journal import Journal, Step, Watcher
from graphlint.runtime.watch.scratch import VIEWS

_FILLS = frozenset({"aten::fill_", "aten::zero_", "aten::masked_fill_"})
#: Larger inputs are not followed element by element.
MAX_ELEMENTS = 1 << 22
#: Larger pinned buffers are not looked at after each statement.
MAX_PINNED = 1 << 16
#: The same for models that do not fit: what is refreshed at each step is small.
MANY_WITHOUT_VALUES = 1 << 16


@dataclass(slots=True, eq=False)
class Input:
    """One static input. `covered` marks what was written since the last replay, `ever` since the capture."""

    address: int
    element: int
    count: int
    shape: tuple[int, ...]
    read: torch.Tensor
    covered: torch.Tensor
    ever: torch.Tensor
    padded: torch.Tensor
    """Filled with a constant behind what was refreshed."""
    tokens: bool = False
    """Whether it holds whole numbers."""
    dirty: bool = False
    partial: frames.Site | None = None
    broadcast: frames.Site | None = None
    rows: int = 0
    """How many rows `partial` wrote."""
    shrunk: tuple[frames.Site, int] | None = None
    """The line that wrote the first rows of it, fewer than in an earlier step, and how many."""
    wrote_stream: int = 0
    wrote_count: int = 0
    wrote_at: frames.Site | None = None


@dataclass(slots=True)
class Watched:
    number: int
    graph: weakref.ref[Any]
    inputs: dict[int, Input] = field(default_factory=dict)
    pinned: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Pinned buffers that the graph copies from: where they lie, and how many bytes."""
    seen: dict[int, int] = field(default_factory=dict)
    """What stood in them at the last replay."""
    landing: set[int] = field(default_factory=set)
    """Pinned buffers that the graph copies to."""
    launched: tuple[int, int] | None = None
    tested: int = 0


class Inputs(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.graphs: dict[int, Watched] = {}
        self.exact: set[frames.Site] = set()
        self.widest: dict[tuple[int, frames.Site], int] = {}
        """Of each line that refreshes an input, the most rows that it wrote."""
        machine.on_graph.append(self._graph)
        machine.on_call.append(self._call)
        machine.on_replay.append(self._replay)
        machine.after_replay.append(self._after)
        machine.on_free.append(self._freed)

    def _graph(self, graph: Any) -> None:
        machine = self.machine
        watched = Watched(graph.number, weakref.ref(graph, functools.partial(_forget, self.graphs, graph.number)))
        with aside():
            for call in graph.calls:
                for ghost in call.sources:
                    storage = ghost.untyped_storage()
                    start = storage.data_ptr()
                    if start not in graph.inputs or start in states(graph):
                        continue
                    element = ghost.element_size()
                    count = storage.nbytes() // element if element else 0
                    if count == 0 or count > (MANY_WITHOUT_VALUES if machine.fake else MAX_ELEMENTS):
                        continue
                    known = watched.inputs.get(start)
                    if known is None:
                        read, covered, ever, padded = (torch.zeros(count, dtype=torch.bool) for _ in range(4))
                        known = Input(start, element, count, tuple(ghost.shape), read, covered, ever, padded)
                        watched.inputs[start] = known
                    if known.element == element and call.name not in VIEWS:
                        _mark(known.read, ghost)
                if call.name == "aten::copy_" and len(call.args) > 1 and not machine.holds(call.args[1]):
                    source = call.args[1]
                    if isinstance(source, torch.Tensor) and machine.is_pinned(source):
                        storage = _storage_of(source)
                        watched.pinned[storage._cdata] = storage.data_ptr(), storage.nbytes()
                        self._watch_host_writes()
                if call.name == "aten::copy_" and call.args and not machine.holds(call.args[0]):
                    watched.landing.add(_storage_of(call.args[0])._cdata)
                    if self._host_read not in machine.on_host_read:
                        machine.on_host_read.append(self._host_read)
        self.graphs[graph.number] = watched

    def _freed(self, block: Block) -> None:
        """What comes to lie there is another tensor, of any size."""
        for watched in self.graphs.values():
            watched.inputs.pop(block.start, None)

    # ------------------------------------------------------------ writes
    def _call(self, func: Any, name: str, held: Any, changes: list[Any], fresh: Any, stream: int) -> None:
        if not changes or not self.graphs or self.machine.capture is not None:
            return
        if name == "aten::copy_" and self.machine.pinned and len(self.machine.here.arguments) > 1:
            source = self.machine.here.arguments[1]
            if isinstance(source, torch.Tensor) and self.machine.is_pinned(source):
                self._watch_host_writes()
        for t in changes:
            start = _storage_of(t).data_ptr()
            for watched in self.graphs.values():
                known = watched.inputs.get(start)
                if known is None:
                    continue
                site = frames.in_user_code(frames.user_sites(4))
                known.wrote_stream, known.wrote_count = stream, self.machine.counts.get(stream, 0)
                known.wrote_at = site
                if known.element != t.element_size():
                    continue
                mark = torch.zeros(known.count, dtype=torch.bool)
                with aside():
                    _mark(mark, t)
                    whole = bool(mark.all())
                    known.covered |= mark
                    known.ever |= mark
                known.dirty = True
                if name in _FILLS and t.dtype is not torch.bool and not t.is_complex():
                    known.tokens = not t.is_floating_point()
                    with aside():
                        known.padded |= mark
                elif known.padded is not None:
                    with aside():
                        known.padded &= ~mark
                if name == "aten::copy_":
                    given = self.machine.here.arguments[1] if len(self.machine.here.arguments) > 1 else None
                    if isinstance(given, torch.Tensor) and site is not None:
                        self._cut(watched, t, given, site)
                        if tuple(given.shape) == tuple(t.shape):
                            self.exact.add(site)
                        elif given.dim() > 0 and given.numel() < t.numel():
                            known.broadcast = site
                partly = not whole and name != "aten::zero_" and site is not None
                if partly and (known.partial is None or name == "aten::copy_"):
                    known.partial = site
                    known.rows = int(t.shape[0]) if t.dim() else 1
                if site is not None and t.dim():
                    rows, before = int(t.shape[0]), self.widest.get((start, site), 0)
                    self.widest[start, site] = max(before, rows)
                    if partly and t.storage_offset() == 0 and rows < before:
                        known.shrunk = site, rows

    def _cut(self, watched: Watched, target: torch.Tensor, given: torch.Tensor, site: frames.Site) -> None:
        """A float copied into whole numbers loses its fraction, silently."""
        if self.machine.fake:
            return
        if given.is_floating_point() and not target.is_floating_point() and given.numel() <= MAX_ELEMENTS:
            with aside():
                plain = self.machine.ghost(given) if self.machine.holds(given) else given.detach()
                fraction = bool((plain != plain.trunc()).any())
            if fraction:
                self.machine.note("fraction-cut", watched.number, site=site, dtype=str(target.dtype))

    def _watch_host_writes(self) -> None:
        if self._host not in self.machine.on_host_write:
            self.machine.on_host_write.append(self._host)

    def _host_read(self, read: list[Any]) -> None:
        for t in read:
            key = _storage_of(t)._cdata
            for watched in self.graphs.values():
                if key in watched.landing and self._under_way(watched):
                    site = frames.in_user_code(frames.user_sites())
                    self.machine.note("pinned-read-in-flight", watched.number, site=site)

    def _under_way(self, watched: Watched) -> bool:
        """Whether the host has not waited for the last replay."""
        if watched.launched is None:
            return False
        stream, count = watched.launched
        return self.machine.host.get(stream, 0) < count

    def _host(self, changes: list[Any]) -> None:
        for t in changes:
            key = _storage_of(t)._cdata
            for watched in self.graphs.values():
                if key in watched.pinned and self._under_way(watched):
                    self._raced(watched.number)
            waiting = [a for work in self.machine.pending for a in getattr(work, "args", ())]
            if any(isinstance(a, torch.Tensor) and _storage_of(a)._cdata == key for a in waiting):
                self._raced(None)

    def _raced(self, number: int | None) -> None:
        site = frames.in_user_code(frames.user_sites())
        self.machine.note("pinned-written-in-flight", number, site=site)

    # ------------------------------------------------------------ replays
    def _replay(self, graph: Any) -> None:
        watched = self.graphs.get(graph.number)
        if watched is None:
            return
        machine = self.machine
        line = machine.current_stream().line
        for known in watched.inputs.values():
            if known.wrote_count:
                seen = max(line.clock.get(known.wrote_stream, 0), machine.host.get(known.wrote_stream, 0))
                if known.wrote_stream != line.id and seen < known.wrote_count:
                    machine.note("replay-not-ordered", graph.number, write=known.wrote_at)
            if known.broadcast is not None and known.broadcast in self.exact:
                machine.note("broadcast-into-input", graph.number, site=known.broadcast)
            known.broadcast = None
            if known.dirty and known.partial is not None:
                self._partial(graph, watched, known)
            if known.dirty and bool(known.padded.any()):
                self._padding(graph, watched, known)
            if known.dirty:
                with aside():
                    known.covered.zero_()
                    known.padded.zero_()
            known.dirty, known.partial, known.shrunk = False, None, None

    def _partial(self, graph: Any, watched: Watched, known: Input) -> None:
        """Only a part was refreshed: does the rest take part in the result?"""
        with aside():
            rest = known.read & ~known.covered
            missed = bool((known.covered & ~known.read).any()) and not bool((known.covered & known.read).any())
            stale = bool(rest.any())
        if missed:
            self.machine.note("write-misses-read", graph.number, site=known.partial)
            return
        if known.shrunk is None or not stale:
            return
        site, known.rows = known.shrunk
        if watched.tested >= 16 or self.machine.pending:
            return
        watched.tested += 1
        weak = self.machine.fake  # whether the rest matters is seen in values only
        part = rows(known.shape[0] if known.shape else 0, known.rows)
        if weak or matters(self.machine, graph, known.address, rest, bytes(known.element), part):
            self.machine.note("stale-tail", graph.number, site=site, rows=known.rows, weak=weak)

    def _padding(self, graph: Any, watched: Watched, known: Input) -> None:
        """Does it matter what stands in the padding?"""
        if watched.tested >= 16 or self.machine.pending or self.machine.fake:
            return
        watched.tested += 1
        with aside():
            rest = known.padded & known.read
            filled = bool(known.padded.all()) or not bool(rest.any())
        if filled:
            return
        value, part, kept = b"\x3f" * known.element, rows(known.shape[0] if known.shape else 0, known.rows), True
        if known.tokens:
            with aside():
                axis = padded_axis(known.padded, known.shape)
                given = known.covered & ~known.padded
                other = another_token(graph, known.address, known.element, given, known.padded) if axis else None
            if axis is None or other is None:
                return
            # what padded places leave behind in a cache nobody reads, or a mask keeps out
            value, part, kept = other, along(axis[0], known.shape[axis[0]], axis[1]), False
        if matters(self.machine, graph, known.address, rest, value, part, kept):
            self.machine.note("padding-matters", graph.number)

    def _after(self, graph: Any) -> None:
        watched = self.graphs.get(graph.number)
        if watched is not None:
            line = self.machine.current_stream().line
            watched.launched = (line.id, line.clock.get(line.id, 0))
            watched.seen = self._buffers(watched)

    def _buffers(self, watched: Watched) -> dict[int, int]:
        """A number for the content of each pinned buffer that only the host writes."""
        pinned = self.machine.pinned
        alive = {k: v for k, v in watched.pinned.items() if (r := pinned.get(k)) is not None and r() is not None}
        return {
            key: zlib.crc32(ctypes.string_at(start, size))
            for key, (start, size) in alive.items()
            if size <= MAX_PINNED and key not in watched.landing
        }

    def done(self, step: Step) -> None:
        """What is written through an array over a pinned buffer is no call of torch's."""
        for watched in self.graphs.values() if step.graph is None else ():
            if watched.seen and self._under_way(watched):
                now = self._buffers(watched)
                if any(now.get(key, old) != old for key, old in watched.seen.items()):
                    watched.seen = now
                    self.machine.note("pinned-written-in-flight", watched.number, site=step.site)


def _forget(table: dict[int, Any], key: int, _: object) -> None:
    table.pop(key, None)


def _mark(mask: torch.Tensor, t: torch.Tensor) -> None:
    """Marks the elements of a storage that a view covers."""
    if t.numel():
        mask.as_strided(t.size(), t.stride(), t.storage_offset()).fill_(True)
