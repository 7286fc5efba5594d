"""Python state that captured code changes, and whether the program reads it later; state born inside a capture."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import Chain, cached_at
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, host_value, lookup, resolve

#: They set a tensor, whatever it held.
_SETS = frozenset(f"aten::{n}" for n in ["copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "set_"])
#: Tensors whose changes outside of captures are remembered, and how many changes of each.
MAX_CHANGED, KEPT_CHANGES = 5000, 6


@dataclass(slots=True, eq=False)
class Written:
    """A store of captured code. kind: "host", "container", "rebound" (a tensor that the graph reads was replaced)."""

    graph: int
    at: frames.Site
    owner: Any
    owner_id: int
    name: str
    kind: str
    text: str
    augmented: bool
    way: tuple[frames.Site, ...]
    """The user's lines inside the capture that led there, innermost first."""
    told: bool = False


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


@dataclass(slots=True)
class Region:
    number: int
    graph: weakref.ref[Any]
    inputs: set[int]
    made: set[int]
    functions: set[str]
    begun: int = 0
    replayed: bool = False
    writes: dict[int, int] = field(default_factory=dict)


class State(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.written: list[Written] = []
        self.born: list[Born] = []
        self.regions: dict[int, Region] = {}
        self.last_write: dict[int, int] = {}
        self._functions: dict[int, set[str]] = {}
        self._writes: dict[int, dict[int, int]] = {}
        self._loaded: dict[int, dict[tuple[int, str], set[int]]] = {}
        machine.on_call.append(self._call)
        self._reads: dict[int, set[int]] = {}
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
        step = self.journal.current
        if step is not None and "watch" in step.notes:
            step.notes.setdefault("reads", set()).update(_storage_of(t).data_ptr() for t in held)
        capture = machine.capture
        if capture is not None and machine.capturing():
            self._reads.setdefault(capture.number, set()).update(_storage_of(t).data_ptr() for t in held)
            writes = self._writes.setdefault(capture.number, {})
            for t in changes:
                writes[_storage_of(t).data_ptr()] = machine.order
        else:
            for t in changes:
                if machine.holds(t):
                    address = _storage_of(t).data_ptr()
                    self.last_write[address] = machine.order
                    if name in _SETS:
                        self._changed.pop(address, None)
                    elif len(self._changed) < MAX_CHANGED:
                        known = self._changed.setdefault(address, [])
                        known.append(EagerWrite(machine.order, frames.user_sites(8)))
                        del known[:-KEPT_CHANGES]
            for memo in self._memos:
                memo.data["memo_reads"].update(_storage_of(t).data_ptr() for t in held)

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
            weakref.ref(graph),
            set(graph.inputs),
            set(graph.made),
            self._functions.pop(graph.number, set()),
            graph.span[0],
            False,
            self._writes.pop(graph.number, {}),
        )

    # ------------------------------------------------------------ stores
    def begins(self, step: Step) -> None:
        statement = step.statement
        if self.written:
            self._read(step)
        if step.graph is not None:
            loads = self._loaded.setdefault(step.graph, {})
            for chain in statement.loads:
                if chain.steps and len(loads) < 20_000:
                    owner = resolve(step.frame, chain.owner)
                    if owner is not MISSING:
                        loads.setdefault((id(owner), str(chain.steps[-1][1])), set()).add(step.line)
        if step.graph is None and self.regions:
            if statement.stores:
                step.notes["watch"] = True
            return
        before: list[tuple[Chain, Any, str, Any]] = []
        if statement.stores or statement.mutated or statement.nonlocals:
            for chain in statement.stores:
                before.append((chain, resolve(step.frame, chain.owner), "store", _seen(resolve(step.frame, chain))))
            if step.graph is not None:
                for chain, method in statement.mutated:
                    value = resolve(step.frame, chain)
                    if isinstance(value, (list, dict, set)) or type(value).__name__ == "deque":
                        before.append((chain, value, method, len(value)))
                for name in statement.names:
                    if name in statement.nonlocals:
                        before.append((Chain(name), None, "name", _seen(lookup(step.frame, name))))
            step.notes["watch"] = True
            step.notes["before"] = before

    def done(self, step: Step) -> None:
        for chain, owner, how, old in step.notes.get("before", ()):
            if owner is MISSING:
                continue
            new = resolve(step.frame, chain)
            if step.graph is not None:
                self._inside(step, chain, owner, how, old, new)
            if how == "store" and old == ("none",) and isinstance(new, torch.Tensor) and self.machine.holds(new):
                reads = frozenset(step.notes.get("reads", ()))
                self.born.append(
                    Born(
                        step.site,
                        _storage_of(new).data_ptr(),
                        step.graph,
                        self.machine.order,
                        _name(step.frame),
                        reads,
                        chain.text,
                    )
                )

    def _inside(self, step: Step, chain: Chain, owner: Any, how: str, old: Any, new: Any) -> None:
        assert step.graph is not None
        if how == "store":
            name = str(chain.steps[-1][1])
            if self._opens(step) and not host_value(new):
                return  # `self.out = model(x)` in the block that captures
            now = _seen(new)
            if now == old and not step.notes.get("read"):
                return
            if isinstance(new, torch.Tensor):
                if not (isinstance(old, tuple) and old[0] == "tensor" and self._captured_read(step.graph, old[1])):
                    return
                kind = "rebound"
            elif host_value(new) or new is None:
                kind = "host"
            else:
                kind = "container"
            self._add(step, owner, name, kind, chain.text)
        elif how == "name":
            if _seen(new) != old and not isinstance(new, torch.Tensor):
                self._add(step, step.frame.f_globals, chain.root, "host", chain.text)
        elif (chain.steps or chain.root not in step.frame.f_code.co_varnames) and len(owner) != old:
            self._add(step, owner, chain.text, "container", f"{chain.text}.{how}(...)")

    def _captured_read(self, graph: int, address: int) -> bool:
        capture = self.machine.capture
        return (capture is not None and capture.number == graph and address in self.machine.owners) or any(
            address in (g.untyped_storage().data_ptr() for g in c.sources) for c in (capture.calls if capture else ())
        )

    def _opens(self, step: Step) -> bool:
        """Whether the statement stands in the very function that opened the capture."""
        capture = self.machine.capture
        return capture is not None and getattr(capture, "frame", None) == id(step.frame)

    def _add(self, step: Step, owner: Any, name: str, kind: str, text: str) -> None:
        try:
            reference = weakref.ref(owner)
        except TypeError:
            reference = None
        graph = step.graph
        assert graph is not None
        if len(self.written) < 2000:
            written = Written(
                graph, step.site, reference, id(owner), name, kind, text, step.statement.augmented, self._way(graph)
            )
            self.written.append(written)
            lines = self._loaded.get(graph, {}).get((id(owner), name), set()) - {step.line}
            if written.augmented and kind == "host" and lines:
                written.told = True
                read = frames.Site(step.path, min(lines), "")
                self._tell(written, read)

    # ------------------------------------------------------------ reads
    def _read(self, step: Step) -> None:
        for written in self.written:
            if written.told:
                continue
            if step.graph == written.graph:
                if written.augmented and written.kind == "host" and step.line != written.at.line:
                    self._inside_read(step, written)
                continue
            region = self.regions.get(written.graph)
            graph = region.graph() if region is not None else None
            if graph is None or graph.replays == 0:
                continue
            if any(self._loads(step, chain, written) for chain in step.statement.loads):
                written.told = True
                self._tell(written, step.site)

    def _tell(self, written: Written, read: frames.Site | None) -> None:
        self.machine.note(
            "captured-store-read",
            written.graph,
            site=written.at,
            read=read,
            text=written.text,
            kind=written.kind,
            way=written.way,
        )

    def _inside_read(self, step: Step, written: Written) -> None:
        """A counter that the captured code itself depends on."""
        if any(self._loads(step, chain, written) for chain in step.statement.loads):
            written.told = True
            self._tell(written, step.site)

    def _loads(self, step: Step, chain: Chain, written: Written) -> bool:
        for length in range(1, len(chain.steps) + 1):
            if str(chain.steps[length - 1][1]) == written.name:
                owner = resolve(step.frame, Chain(chain.root, chain.steps[: length - 1]))
                if owner is not MISSING and id(owner) == written.owner_id:
                    return True
        if written.kind == "container":
            for length in range(len(chain.steps) + 1):
                value = resolve(step.frame, Chain(chain.root, chain.steps[:length]))
                if value is not MISSING and id(value) == written.owner_id:
                    return True
        if not chain.steps and chain.root == written.name:
            return id(step.frame.f_globals) == written.owner_id
        return False

    def _replay(self, graph: Any) -> None:
        region = self.regions.get(graph.number)
        if region is None:
            return
        for written in self.written:
            if written.graph == graph.number and written.kind == "rebound" and not written.told and graph.replays > 0:
                written.told = True
                self._tell(written, None)
        if not region.replayed:
            region.replayed = True
            for address in region.inputs & self._changed.keys():
                for change in self._changed[address]:
                    site = frames.in_user_code(change.at)
                    if change.order < region.begun and site is not None:
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


def _seen(value: Any) -> Any:
    """What is kept of a value to compare it later; nothing is kept alive."""
    if value is MISSING or value is None:
        return ("none",)
    if isinstance(value, torch.Tensor):
        return ("tensor", _storage_of(value).data_ptr())
    if host_value(value):
        return ("host", tuple(value) if isinstance(value, list) else value)
    if isinstance(value, (list, dict, set)):
        return ("container", id(value), len(value))
    return ("other", id(value))
