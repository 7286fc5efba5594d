"""Static outputs: what the program keeps of them, and whether it reads them after somebody wrote over them."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import weakref
import zlib
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import KEEPERS, Chain
from graphlint.runtime.watch.journal import MISSING, Activation, Journal, Step, Watcher, resolve

#: Calls that certainly read values.
_VALUES = frozenset(
    f"aten::{n}"
    for n in ["clone", "_to_copy", "add", "sub", "mul", "div", "sum", "mean", "cat", "stack", "abs", "max", "eq"]
)


@dataclass(slots=True, eq=False)
class Kept:
    """A reference to an output that the program stored after a replay."""

    graph: int
    address: int
    epoch: int
    content: int
    at: frames.Site
    chain: Chain
    call: int
    """Of a variable: the call that it belongs to."""
    owner: int
    """The number of the object that keeps it; 0 for a variable."""
    how: str
    told: bool = False
    holder: weakref.ref[Any] | None = None
    """The object of the program's that keeps it as an attribute, if that was made after a replay."""


@dataclass(slots=True)
class Outputs:
    number: int
    graph: weakref.ref[Any]
    site: Any
    made: set[int]
    pool: tuple[int, int]
    span: tuple[int, int]
    """Between these events the graph's own tensors were made."""
    replays: int = 0
    clobbered: dict[int, int] = field(default_factory=dict)
    """Outputs that another graph's replay wrote over, with that graph."""


class OutputWatch(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.graphs: dict[int, Outputs] = {}
        self.kept: list[Kept] = []
        self.returned_at: dict[int, tuple[weakref.ref[Any], frames.Site, int, int, int]] = {}
        self._before: dict[int, tuple[int, int]] = {}
        self._objects: dict[int, weakref.ref[Any]] = {}
        """Objects of the program's own classes that were made since the first replay."""
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)
        machine.after_replay.append(self._after)
        machine.on_call.append(self._call)

    # ------------------------------------------------------------ graphs
    def _graph(self, graph: Any) -> None:
        self.graphs[graph.number] = Outputs(
            graph.number, weakref.ref(graph), None, set(graph.made), graph.pool, graph.span
        )

    def output_of(self, value: Any) -> tuple[Outputs, int] | None:
        """The graph whose output a tensor is, and its address."""
        if not isinstance(value, torch.Tensor) or not self.machine.holds(value):
            return None
        address = _storage_of(value).data_ptr()
        for known in self.graphs.values():
            if self._mine(known, address):
                return known, address
        return None

    def _mine(self, known: Outputs, address: int) -> bool:
        """Whether what lies at an address now was made by the graph: graphs of one pool use the same addresses."""
        return address in known.made and known.span[0] <= self.machine.made.get(address, -1) <= known.span[1]

    def _content(self, address: int) -> int:
        block = self.machine.arena.used.get(address)
        if block is None:
            return 0
        if self.machine.fake:
            return self.journal.replays  # every replay is taken to write something else
        return zlib.crc32(ctypes.string_at(block.start, min(block.wanted, 1 << 20)))

    def _epoch(self, known: Outputs) -> int:
        """How often the graph was replayed; what it wrote outlives it."""
        graph = known.graph()
        if graph is not None:
            known.replays = graph.replays
        return known.replays

    def _replay(self, graph: Any) -> None:
        self._before.clear()
        for known in self.graphs.values():
            if known.number == graph.number:
                known.clobbered.clear()
            elif known.pool == graph.pool:
                for address in known.made:
                    if address in self.machine.owners and self._mine(known, address):
                        self._before[address] = (known.number, self._content(address))

    def _after(self, graph: Any) -> None:
        self.journal.replays += 1
        if graph.number in self.graphs:
            self.graphs[graph.number].replays = graph.replays
        for address, (number, content) in self._before.items():
            known = self.graphs[number]
            if self._epoch(known) > 0 and self._content(address) != content:
                known.clobbered[address] = graph.number

    # ------------------------------------------------------------ keeping
    def entered(self, activation: Activation) -> None:
        code = activation.frame.f_code
        if self.journal.replays and code.co_name == "__init__" and code.co_argcount:
            made = activation.frame.f_locals.get(code.co_varnames[0])
            if made is not None and not isinstance(made, torch.nn.Module):
                with contextlib.suppress(TypeError):
                    self._objects[id(made)] = weakref.ref(made, functools.partial(_forget, self._objects, id(made)))

    def done(self, step: Step) -> None:
        if step.graph is not None or not self.graphs or not self.journal.replays:
            return
        statement, frame = step.statement, step.frame
        for chain, method in statement.mutated:
            if method in KEEPERS:
                container = resolve(frame, chain)
                if isinstance(container, list) and container:
                    self._keep(
                        step, container[-1] if method != "insert" else container[0], chain, container, "container"
                    )
                elif method != "append" and hasattr(container, "queue"):
                    self._keep(step, container.queue[-1] if container.queue else None, chain, container, "container")
                elif type(container).__name__ == "deque" and container:
                    self._keep(step, container[-1], chain, container, "container")
        for chain in statement.stores:
            value = resolve(frame, chain)
            kind, _ = chain.steps[-1]
            owner = resolve(frame, chain.owner)
            self._keep(step, value, chain, owner, "container" if kind != "attr" else "attribute")
        if self._objects:
            for name in statement.names:
                self._hold(step, frame.f_locals.get(name, MISSING), Chain(name))
        if self.journal.replays > step.epoch:
            if len(statement.names) > 1:  # what a generator gave one after the other
                self._collected(step, [frame.f_locals.get(name) for name in statement.names])
            for name in statement.names:
                self._collected(step, frame.f_locals.get(name, MISSING))
                self._keep(step, frame.f_locals.get(name, MISSING), Chain(name), None, "name")

    def _collected(self, step: Step, value: Any) -> None:
        """One statement that ran several replays and gathered the same output each time."""
        if self.journal.replays - step.epoch < 2 or not isinstance(value, (list, tuple)):
            return
        seen: set[int] = set()
        for one in value:
            found = self.output_of(one)
            if found is None:
                continue
            if found[1] in seen:
                self.machine.note(
                    "kept-output-read", found[0].number, site=step.site, read=None, text="the list", how="collected"
                )
                return
            seen.add(found[1])

    def _keep(self, step: Step, value: Any, chain: Chain, owner: Any, how: str) -> None:
        values = value if isinstance(value, (tuple, list)) and len(value) <= 16 else (value,)
        if isinstance(value, dict) and len(value) <= 16:
            values = tuple(value.values())
        for one in values:
            self._hold(step, one, chain)
            found = self.output_of(one)
            if found is None:
                continue
            known, address = found
            epoch = self._epoch(known)
            if epoch < 1:
                continue
            where, keeper = (step.call, 0) if how == "name" else (0, self.journal.identities.number(owner))
            if how != "container":
                self.kept = [k for k in self.kept if not (k.chain == chain and k.call == where and k.owner == keeper)]
            if len(self.kept) < 5000:
                self.kept.append(
                    Kept(known.number, address, epoch, self._content(address), step.site, chain, where, keeper, how)
                )

    def _hold(self, step: Step, value: Any, chain: Chain) -> None:
        """Keeps what an object that was made after a replay has as attributes."""
        reference = self._objects.get(id(value))
        if reference is None or reference() is not value or len(self.kept) >= 5000:
            return
        for name, one in list(getattr(value, "__dict__", {}).items()):
            found = self.output_of(one)
            if found is None or self._epoch(found[0]) < 1:
                continue
            if any(k.holder is reference and k.chain.steps[-1] == ("attr", name) for k in self.kept):
                continue
            known, address = found
            self.kept.append(
                Kept(
                    known.number,
                    address,
                    self._epoch(known),
                    self._content(address),
                    step.site,
                    Chain(chain.root, (*chain.steps, ("attr", name))),
                    0,
                    self.journal.identities.number(value),
                    "attribute",
                    holder=reference,
                )
            )

    # ------------------------------------------------------------ reading
    def begins(self, step: Step) -> None:
        if step.graph is not None or not self.kept:
            return
        for chain in step.statement.loads:
            for kept in self.kept:
                if kept.told or not self._loads(chain, kept, step):
                    continue
                known = self.graphs[kept.graph]
                if (
                    self._epoch(known) > kept.epoch
                    and self._content(kept.address) != kept.content
                    and self._still(kept, step)
                ):
                    kept.told = True
                    self.machine.note(
                        "kept-output-read", kept.graph, site=kept.at, read=step.site, text=kept.chain.text, how=kept.how
                    )

    def _loads(self, chain: Chain, kept: Kept, step: Step) -> bool:
        if kept.how == "name":
            return chain.root == kept.chain.root and kept.call == step.call
        wanted = kept.chain
        if kept.how == "attribute":
            if len(chain.steps) < len(wanted.steps) or not chain.steps:
                return False
            for length in range(1, len(chain.steps) + 1):
                if chain.steps[length - 1] == wanted.steps[-1]:
                    owner = resolve(step.frame, Chain(chain.root, chain.steps[: length - 1]))
                    if owner is not MISSING and self.journal.identities.known(owner) == kept.owner:
                        return True
            return False
        for length in range(len(chain.steps) + 1):
            value = resolve(step.frame, Chain(chain.root, chain.steps[:length]))
            if value is not MISSING and self.journal.identities.known(value) == kept.owner:
                return True
        return False

    def _still(self, kept: Kept, step: Step) -> bool:
        """Whether the reference is still there."""
        if kept.holder is not None:
            found = self.output_of(getattr(kept.holder(), "__dict__", {}).get(kept.chain.steps[-1][1]))
            return found is not None and found[1] == kept.address
        if kept.how == "name":
            found = self.output_of(step.frame.f_locals.get(kept.chain.root))
            return (found is not None and found[1] == kept.address) or isinstance(
                step.frame.f_locals.get(kept.chain.root), (tuple, list, dict)
            )
        return True

    def returned(self, activation: Activation, value: Any) -> None:
        if not self.graphs or not isinstance(value, torch.Tensor) or "last" not in activation.data:
            return
        found = self.output_of(value)
        if found is None:
            return
        known, address = found
        epoch = self._epoch(known)
        if epoch >= 1:
            site = activation.data["last"].site
            self.returned_at[id(value)] = (weakref.ref(value), site, epoch, self._content(address), known.number)

    def _call(self, func: Any, name: str, held: list[Any], changes: Any, fresh: Any, stream: int) -> None:
        if not self.graphs or self.machine.capturing():
            return
        for t in held:
            address = _storage_of(t).data_ptr()
            for known in self.graphs.values():
                if (
                    self._mine(known, address)
                    and self._epoch(known) == 0
                    and not any(c is t for c in changes)
                    and name in _VALUES
                ):
                    self.machine.note("output-read-before-replay", known.number)
                by = known.clobbered.get(address)
                if by is not None and not any(c is t for c in changes):
                    self.machine.note("clobbered-output-read", known.number, by=by)
                    known.clobbered.pop(address)
        if len(held) > 1:
            self._together(held)
            step = self.journal.current
            if step is not None and name in ("aten::cat", "aten::stack"):
                self._collected(step, held)

    def _together(self, held: list[Any]) -> None:
        """One call that reads outputs of several replays as if they were several tensors."""
        for t in held:
            entry = self.returned_at.get(id(t))
            if entry is None or entry[0]() is not t:
                continue
            _, site, epoch, content, number = entry
            known = self.graphs.get(number)
            address = _storage_of(t).data_ptr()
            if known is not None and self._epoch(known) > epoch and self._content(address) != content:
                step = self.journal.current
                self.machine.note(
                    "kept-output-read",
                    number,
                    site=step.site if step is not None else site,
                    read=site,
                    text="the collected outputs",
                    how="collected",
                )
                return


def _forget(table: dict[int, Any], key: int, _: object) -> None:
    table.pop(key, None)
