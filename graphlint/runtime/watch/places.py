"""Where the program keeps a graph's inputs, and when a place gets something else.

At the end of a capture, the objects that hold each input are found (attributes, dictionary items, lists, globals, local
variables of running functions, `.grad`). After each statement they are looked at again: a place that holds another
tensor was rebound there, one that holds none was dropped there. When an input's last tensor dies, its line is noted,
too: the statement that let go of it, or, where it went away with a function's locals, the line that made it.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.arena import Block
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import Chain
from graphlint.runtime.watch.holders import Change, Place, find
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, follow, resolve
from graphlint.runtime.watch.scratch import Scratch
from graphlint.runtime.watch.stores import Stores

MAX_PLACES = 4000
#: Seconds of the processor that looking at places may take in one run, however busy the machine is; afterwards they are
#: looked at when a graph is replayed.
BUDGET = 20.0


@dataclass(slots=True, eq=False)
class Local:
    """A local variable of a running function that holds an input."""

    call: int
    name: str
    address: int
    graph: int
    changed: Change | None = None


@dataclass(slots=True, eq=False)
class Death:
    """An input whose memory was given back. `left` is true if it went away with a function's locals."""

    address: int
    graph: int
    at: frames.Site | None
    left: bool
    order: int


@dataclass(slots=True)
class Known:
    """What is known of one graph."""

    number: int
    graph: weakref.ref[Any]
    inputs: set[int]
    made: set[int]
    written: set[int]
    alive: set[int]
    """Inputs whose memory is still theirs."""
    places: list[Place] = field(default_factory=list)
    locals: list[Local] = field(default_factory=list)
    ended: int = 0


class Places(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.scratch = Scratch.of_journal(journal)
        self._items: dict[int, dict[int, list[Place]]] = {}
        self.known: dict[int, Known] = {}
        self.deaths: list[Death] = []
        self.spent = 0.0
        self._seen: dict[int, dict[int, weakref.ref[Any]]] = {}
        self._writes: dict[int, set[int]] = {}
        self._loads: dict[tuple[int, int, str], frames.Site] = {}
        self.parameters: list[tuple[int, Any, str, int, frames.Site]] = []
        """Arguments that a capture read: (graph, code, name, address, the captured line)."""
        self.last_write: dict[int, int] = {}
        machine.on_call.append(self._call)
        machine.on_graph.append(self._graph)
        machine.on_free.append(self._freed)
        machine.on_replay.append(self._replay)

    def entered(self, activation: Activation) -> None:
        activation.data["begun"] = self.machine.order

    def begins(self, step: Step) -> None:
        if step.graph is not None:
            for chain in step.statement.loads:
                self._loads.setdefault((step.graph, step.call, chain.root), step.site)
                self._slots(step, chain)
        elif self.known and step.statement.stores:
            step.notes["holders"] = [h for c in step.statement.stores for h in self._under(step, c)]

    def _slots(self, step: Step, chain: Chain) -> None:
        """The items of lists that captured code reads: a list is no object that refers weakly."""
        assert step.graph is not None
        known = self._items.setdefault(step.graph, {})
        for part, text in ((chain, chain.text), (chain.owner if chain.steps else chain, chain.owner.text)):
            held = resolve(step.frame, part)
            if not isinstance(held, list) or not held or len(known) > 200 or not isinstance(held[0], torch.Tensor):
                continue
            number = self.journal.identities.number(held)
            if number not in known:
                reference = self.journal.identities.reference(held)
                known[number] = [
                    Place(reference, (("item", i),), f"{text}[{i}]", _storage_of(t).data_ptr(), step.graph)
                    for i, t in enumerate(held[:64])
                    if isinstance(t, torch.Tensor) and self.machine.holds(t)
                ]

    # ------------------------------------------------------------ objects that hold inputs
    def _under(self, step: Step, chain: Chain) -> Iterator[tuple[Chain, Known, Place, str]]:
        """The places in an object that a statement is about to replace, where captured code goes through it; of each
        the name of the module in it that has the place."""
        owner, old = resolve(step.frame, chain.owner), resolve(step.frame, chain)
        kind, name = chain.steps[-1]
        if isinstance(old, torch.Tensor) or not hasattr(old, "__dict__") or kind != "attr":
            return
        inner = {id(old): ""}
        if isinstance(old, torch.nn.Module):
            inner = {id(m): n for n, m in old.named_modules()}
        stores = next((w for w in self.journal.watchers if isinstance(w, Stores)), None)
        for known in self.known.values():
            if stores is None or not stores.loaded(known.number, owner, name):
                continue
            for place in known.places:
                root = place.root()
                if root is not None and id(root) in inner and not place.gradient:
                    yield chain, known, place, inner[id(root)]

    def _moved(self, step: Step) -> None:
        """What captured code would find there now."""
        for chain, _, place, name in step.notes.pop("holders", ()):
            new = resolve(step.frame, chain)
            if name and isinstance(new, torch.nn.Module):
                new = dict(new.named_modules()).get(name)
            if new is MISSING or new is place.root() or not hasattr(new, "__dict__"):
                continue
            group = place.group
            if follow(new, place.steps) is MISSING if not group else group not in vars(new):
                continue
            with contextlib.suppress(TypeError):
                place.root = weakref.ref(new)

    # ------------------------------------------------------------ what the capture touches
    def _call(self, func: Any, name: str, held: Any, changes: Any, fresh: Any, stream: int) -> None:
        capture = self.machine.capture
        if capture is None or not self.machine.capturing():
            for t in changes:
                self.last_write[_storage_of(t).data_ptr()] = self.machine.order
            return
        seen = self._seen.setdefault(capture.number, {})
        for t in held:
            before = seen.get(id(t))
            if before is None or before() is not t:
                seen[id(t)] = weakref.ref(t)
        writes = self._writes.setdefault(capture.number, set())
        for t in changes:
            writes.add(_storage_of(t).data_ptr())

    def _graph(self, graph: Any) -> None:
        begun = time.thread_time()
        seen = self._seen.pop(graph.number, {})
        known = Known(
            graph.number,
            weakref.ref(graph),
            set(graph.inputs),
            set(graph.made),
            self._writes.pop(graph.number, set()),
            {start for start in graph.inputs if start in self.machine.owners},
            ended=self.machine.order,
        )
        self.known[graph.number] = known
        tensors = [t for r in seen.values() if (t := r()) is not None]
        wanted: dict[int, tuple[Any, int]] = {}
        for t in tensors:
            address = _storage_of(t).data_ptr()
            if address in known.inputs:
                wanted[id(t)] = (t, address)
            gradient = t.grad if t.is_leaf and t.requires_grad else None
            if gradient is not None and self.machine.holds(gradient):
                known.places.append(
                    Place(
                        weakref.ref(t),
                        (("attr", "grad"),),
                        ".grad",
                        _storage_of(gradient).data_ptr(),
                        graph.number,
                        True,
                    )
                )
        del tensors
        known.places += find({id(t): (t, a) for t, a in list(wanted.values())[:MAX_PLACES]}, graph.number)
        wanted.clear()
        self._without_aliases(known)
        for places in self._items.pop(graph.number, {}).values():
            known.places += [p for p in places if p.address in known.inputs]
        for activation in self.journal.stack:
            names = activation.frame.f_locals if activation.frame.f_code.co_name != "<module>" else {}
            for name, value in list(names.items()):
                if isinstance(value, torch.Tensor) and self.machine.holds(value):
                    address = _storage_of(value).data_ptr()
                    if address in known.inputs:
                        known.locals.append(Local(activation.number, name, address, graph.number))
                        code = activation.frame.f_code
                        used = self._loads.get((graph.number, activation.number, name))
                        if used is not None and name in code.co_varnames[: code.co_argcount]:
                            self.parameters.append((graph.number, code, name, address, used))
        self.spent += time.thread_time() - begun

    def _without_aliases(self, known: Known) -> None:
        """Leaves out what only happens to hold an input too, where the captured code reads it from another place."""
        stores = next((w for w in self.journal.watchers if isinstance(w, Stores)), None)
        if stores is None:
            return
        read = {p.address for p in known.places if self._is_read(p, stores)}
        known.places = [
            p for p in known.places if p.gradient or p.address not in read or p.group or self._is_read(p, stores)
        ]

    @staticmethod
    def _is_read(place: Place, stores: Stores) -> bool:
        """Whether captured code of the user's reads a place."""
        owner = follow(place.root(), place.steps[:-1])
        return not place.gradient and owner is not MISSING and stores.loaded(place.graph, owner, place.steps[-1][1])

    # ------------------------------------------------------------ what becomes of it
    def done(self, step: Step) -> None:
        if not self.known or self.spent > BUDGET or not step.statement.touches:
            return
        begun = time.thread_time()
        self._moved(step)
        site, statement = step.site, step.statement
        bare = step.frame.f_code.co_name == "<module>" or bool(statement.nonlocals)
        looks = (
            not statement.quiet
            or statement.stores
            or (statement.names and bare)
            or isinstance(statement.node, ast.Delete)
        )
        for known in self.known.values():
            if looks:
                self.look(known, site)
            for local in known.locals:
                if local.changed is None and local.call == step.call and local.name in step.statement.names:
                    value = step.frame.f_locals.get(local.name)
                    self._compare(local, value, site)
        self.spent += time.thread_time() - begun

    def returned(self, activation: Activation, value: Any) -> None:
        for known in self.known.values():
            known.locals = [p for p in known.locals if p.call != activation.number]

    def look(self, known: Known, site: frames.Site | None) -> None:
        for place in known.places:
            root = place.root()
            if root is None:
                continue
            group = place.group
            value = root.__dict__[group].get(place.steps[1][1]) if group else follow(root, place.steps)
            self._compare(place, value, site)

    def _compare(self, place: Place | Local, value: Any, site: frames.Site | None) -> None:
        machine = self.machine
        kind, address = "none", 0
        if isinstance(value, torch.Tensor):
            address = _storage_of(value).data_ptr() if value.layout is torch.strided else 0
            if address == place.address:
                place.changed = None
                return
            kind, address = ("tensor", address) if machine.holds(value) else ("host", 0)
        if place.changed is not None and place.changed.kind == kind and place.changed.address == address:
            return
        last = isinstance(place, Place) and not place.group and place.steps[-1][0] in ("item", "key")
        place.changed = Change(site, kind, address, machine.order, self._replays(place.graph), last)

    def _replays(self, number: int) -> int:
        graph = self.known[number].graph()
        return graph.replays if graph is not None else 0

    def _replay(self, graph: Any) -> None:
        known = self.known.get(graph.number)
        if known is None:
            return
        if self.spent > BUDGET:
            self.look(known, None)
        every: list[Place | Local] = [*known.places, *known.locals]
        for place in every:
            change = place.changed
            if change is None:
                continue
            gradient = isinstance(place, Place) and place.gradient
            same, alive = False, place.address in self.machine.owners
            scratch = not self.scratch.reads(graph.number, place.address)
            if change.kind == "tensor" and not gradient:
                same = self._same(place, change, known)
            self.machine.note(
                "replayed-with-other-place",
                graph.number,
                site=change.at,
                kind=change.kind,
                text=place.text if isinstance(place, Place) else place.name,
                gradient=gradient,
                same=same,
                item=change.item,
                other=self._reader(change.address, graph.number),
                alive=alive,
                scratch=scratch,
                # what the graph sets before it reads it may be any memory that is still there
                weak=alive and not gradient and scratch,
            )
        self._arguments(graph)
        for death in self.deaths:
            if death.graph == graph.number:
                self.machine.note(
                    "replayed-with-dead-input", graph.number, site=death.at, left=death.left, address=death.address
                )

    def _arguments(self, graph: Any) -> None:
        """Replays under a later call of the function that captured, which was given another tensor."""
        for number, code, name, address, site in self.parameters:
            if number != graph.number:
                continue
            for activation in self.journal.stack:
                value = activation.frame.f_locals.get(name) if activation.frame.f_code is code else None
                if not isinstance(value, torch.Tensor) or not self.machine.holds(value):
                    continue
                other = _storage_of(value).data_ptr()
                begun = activation.data.get("begun", 0)
                block, new = self.machine.arena.used.get(address), self.machine.arena.used.get(other)
                if other == address or block is None or new is None or self.last_write.get(address, 0) > begun:
                    continue
                if (
                    self.machine.fake
                    or block.wanted != new.wanted
                    or ctypes.string_at(block.start, block.wanted) != ctypes.string_at(new.start, new.wanted)
                ):
                    self.machine.note("argument-ignored", number, site=site, text=name)

    def _reader(self, address: int, number: int) -> int | None:
        """Another graph that reads what the place holds now."""
        for known in self.known.values():
            if known.number != number and address in known.inputs:
                return known.number
        return None

    def _same(self, place: Place | Local, change: Change, known: Known) -> bool:
        """Whether the graph's memory holds the same bytes as what the place holds now."""
        if self.machine.fake:
            return False
        block, other = self.machine.arena.used.get(place.address), self.machine.arena.used.get(change.address)
        if block is None or other is None or block.wanted != other.wanted:
            return False
        return ctypes.string_at(block.start, block.wanted) == ctypes.string_at(other.start, other.wanted)

    def _freed(self, block: Block) -> None:
        for known in self.known.values():
            if block.start not in known.alive:
                continue
            known.alive.discard(block.start)
            if known.graph() is None:
                continue
            left = self.journal.leaving is not None
            birth = self.machine.births.get(block.start, ())
            if left:
                site = frames.in_user_code(birth)
            else:
                step = self.journal.current
                site = step.site if step is not None else frames.in_user_code(frames.user_sites())
            self.deaths.append(Death(block.start, known.number, site, left, self.machine.order))
