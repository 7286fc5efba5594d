"""`.grad` between replays: buffers of graphed callables that are written over, buffers that only ever grow."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.watch.journal import Journal, Step, Watcher

#: They set a gradient, whatever it held: what a captured backward adds then starts anew at every replay.
_SETS = frozenset(f"aten::{n}" for n in ["zero_", "fill_", "_foreach_zero_"])


@dataclass(slots=True, eq=False)
class Leaf:
    tensor: weakref.ref[Any]
    had: bool
    cleared: frames.Site | None = None


@dataclass(slots=True)
class Backward:
    """A graph that writes gradients. `grown` are `.grad` buffers that were there before the capture."""

    kind: str
    made: set[int]
    span: tuple[int, int]
    grown: set[int] = field(default_factory=set)
    site: frames.Site | None = None
    replayed_at: int = 0
    restarted: bool = False


class Gradients(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.leaves: dict[int, Leaf] = {}
        self.graphs: dict[int, Backward] = {}
        self.last_write: dict[int, int] = {}
        self._writes: dict[int, set[int]] = {}
        self._sets: dict[int, set[int]] = {}
        self._sites: dict[int, frames.Site | None] = {}
        machine.on_call.append(self._call)
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)
        machine.listeners.append(self._noted)
        self._raw = [(k, k.zero_grad) for k in (torch.nn.Module, torch.optim.Optimizer)]
        for kind, raw in self._raw:
            kind.zero_grad = self._watched(raw)  # type: ignore[method-assign]

    def finish(self) -> None:
        for kind, raw in self._raw:
            kind.zero_grad = raw  # type: ignore[method-assign]

    def _watched(self, raw: Any) -> Any:
        @functools.wraps(raw)
        def zero_grad(this: Any, *args: Any, **kwargs: Any) -> Any:
            out = raw(this, *args, **kwargs)
            if self.graphs and self.machine.capture is None:
                site = frames.in_user_code(frames.user_sites())
                for leaf in self.leaves.values():
                    t = leaf.tensor()
                    if t is not None and t.grad is None:
                        leaf.cleared = site
            return out

        return zero_grad

    def _noted(self, name: str, data: dict[str, Any], at: events.Stack) -> None:
        if name == "captured-backward" and self.machine.capture is not None:
            self._sites.setdefault(self.machine.capture.number, frames.in_user_code(at))

    def _call(self, func: Any, name: str, held: list[Any], changes: list[Any], fresh: Any, stream: int) -> None:
        capture = self.machine.capture
        if capture is not None and self.machine.capturing():
            for t in held:
                if t.requires_grad and t.is_leaf:
                    leaf = self.leaves.get(id(t))
                    if leaf is None or leaf.tensor() is not t:
                        self.leaves[id(t)] = Leaf(weakref.ref(t), t.grad is not None)
            writes = self._writes.setdefault(capture.number, set())
            writes.update(_storage_of(t).data_ptr() for t in changes)
            if name in _SETS:
                self._sets.setdefault(capture.number, set()).update(
                    _storage_of(t).data_ptr()
                    for t in changes
                    if t.numel() * t.element_size() == _storage_of(t).nbytes()
                )
        else:
            for t in changes:
                if self.machine.holds(t):
                    address = _storage_of(t).data_ptr()
                    self.last_write[address] = self.machine.order
                    if name in _SETS:
                        self._restarted(address)

    def _restarted(self, address: int) -> None:
        """Gradients that are set between replays: the program adds up several replays on purpose."""
        for number, known in self.graphs.items():
            if known.replayed_at and address in known.grown and not known.restarted:
                known.restarted = True
                self.machine.note("gradient-restarted", number)

    def _graph(self, graph: Any) -> None:
        writes = self._writes.pop(graph.number, set()) - self._sets.pop(graph.number, set())
        known = self.graphs[graph.number] = Backward(graph.kind, set(graph.made), graph.span)
        known.site = self._sites.get(graph.number)
        for leaf in self.leaves.values():
            t = leaf.tensor()
            if t is not None and t.grad is not None and self.machine.holds(t.grad):
                address = _storage_of(t.grad).data_ptr()
                if address in writes and address in graph.inputs:
                    known.grown.add(address)

    def done(self, step: Step) -> None:
        if not self.graphs or not step.statement.touches:
            return
        for leaf in self.leaves.values():
            t = leaf.tensor()
            if t is None:
                continue
            has = t.grad is not None
            if leaf.had and not has:
                leaf.cleared = step.site
            leaf.had = has

    def _replay(self, graph: Any) -> None:
        known = self.graphs.get(graph.number)
        if known is None:
            return
        machine = self.machine
        if known.kind == "graphed-callables":
            for leaf in self.leaves.values():
                t = leaf.tensor()
                if t is None or t.grad is None:
                    continue
                address = _storage_of(t.grad).data_ptr()
                if address in known.made and known.span[0] <= machine.made.get(address, -1) <= known.span[1]:
                    site = leaf.cleared or frames.in_user_code(frames.user_sites())
                    machine.note("gradient-overwritten", graph.number, site=site)
                    return
        elif known.replayed_at and known.grown:
            untouched = all(self.last_write.get(a, 0) < known.replayed_at for a in known.grown)
            if untouched and known.site is not None:
                machine.note("gradient-accumulates", graph.number, site=known.site)
        known.replayed_at = machine.order
