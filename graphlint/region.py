"""A Region: the life of one captured graph, as facts in order.

`life` is everything that the witness saw on the path that leads to this capture and goes on after it; `begin` and
`end` are the orders of the capture in it. A rule reads `captured`, `before`, `after`, and the summaries below.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphlint.source import Location
from graphlint.value import Place, Storage, Value

if TYPE_CHECKING:
    from graphlint.fact import Fact
    from graphlint.finding import Note


@dataclass(frozen=True, slots=True)
class Reached:
    """A function that the region runs: `at` is its `def` line."""

    at: Location
    name: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What rules may depend on. `torch_version` is (major, minor), None for "any version from 2.11 up"."""

    torch_version: tuple[int, int] | None = None
    cpu_names: tuple[str, ...] = ()
    prefill_names: tuple[str, ...] = ("prefill", "prompt", "context_phase", "varlen", "cu_seqlens", "packed")
    trusted: tuple[str, ...] = ()

    def at_least(self, major: int, minor: int) -> bool | None:
        """True or False for a known torch version, None if any from 2.11 up must be served."""
        return None if self.torch_version is None else self.torch_version >= (major, minor)


@dataclass(eq=False, slots=True)
class Region:
    """One capture.

    kind: "graph" (with torch.cuda.graph), "begin-end", "accelerator-graph", "graphed-callables", "compile",
        "cuda-graph-module", "root" (configured), "never-entered" (made, and entered by no `with`; it captures nothing),
        "engine" (a serving engine that captures by itself: `options` are its arguments, nothing else is known).
    at: where the capture begins: the with-item's call, `capture_begin()`, `make_graphed_callables(...)` or
        `torch.compile(...)`.
    applied_at: the instantiation, decorator or call that makes a wrapper's capture, else None.
    graph, pool, stream: the values given; options: all keyword arguments of the capture call.
    depth: length of the fact chain at the capture, so that `fact.chain[depth:]` is the way from capture to fact.
    warm: it warms up by itself (make_graphed_callables, compile, CudaGraphModule).
    clones_outputs, copies_inputs: what the wrapper promises.
    """

    kind: str
    at: Location
    function: str
    settings: Settings
    life: list[Fact] = field(default_factory=list, repr=False)
    begin: int = 0
    end: int = 1 << 60
    depth: int = 0
    applied_at: Location | None = None
    graph: Value | None = None
    pool: Value | None = None
    stream: Value | None = None
    own_stream: Value | None = None
    """The capturing stream, where none was given and captured code asked for the current one."""
    options: dict[str, Value] = field(default_factory=dict)
    warm: bool = False
    hurried: bool = False
    """True if a call before the capture was left early to save effort: not all that ran before it was seen."""
    clones_outputs: bool = False
    copies_inputs: bool = False
    maybe: bool = False
    """True if it is only possibly a cudagraph region (torch.compile with a mode that is not known)."""
    reaches: dict[Reached, None] = field(default_factory=dict)
    unresolved: dict[tuple[Location, str], None] = field(default_factory=dict)
    inputs: dict[Storage, Fact] = field(default_factory=dict, repr=False)
    """Storages made outside that captured work reads, each with the first fact that reads it."""
    writes: dict[Storage, Fact] = field(default_factory=dict, repr=False)
    """Storages made outside that captured work writes."""
    outputs: dict[Storage, Fact] = field(default_factory=dict, repr=False)
    """Storages made inside, each with the fact that made it."""
    outlived: bool = True
    """False if nothing that outlives the code that was run holds the graph: it dies with the objects around it."""
    found_at: dict[Place, set[int]] = field(default_factory=dict, repr=False)
    """Where captured code found objects and containers: places with the ids of what was there."""
    since: int = 0
    """The ids of scopes and objects that are made in the capture or after it are greater."""
    repeated: list[tuple[Value, tuple[Value, ...]]] = field(default_factory=list, repr=False)
    """Calls that were not run again: the result of the first, and what this one was given."""
    spent: bool = False
    """True if the work budget ran out inside: what follows was not seen."""

    @property
    def captured(self) -> Iterator[Fact]:
        """Facts inside this capture, in order."""
        return (f for f in self.life[self.position(self.begin) : self.position(self.end)] if f.region is self)

    @property
    def before(self) -> Iterator[Fact]:
        return iter(self.life[: self.position(self.begin)])

    @property
    def after(self) -> Iterator[Fact]:
        return iter(self.life[self.position(self.end + 1) :])

    def position(self, order: int) -> int:
        """Where in `life` the first fact of this order or a later one stands; facts are in order."""
        return bisect_left(self.life, order, key=lambda f: f.order)

    def way(self, fact: Fact) -> tuple[Note, ...]:
        """How `fact` is reached from this capture, outermost first: `captured here`, `called here`; at most five."""
        from graphlint.finding import Note

        notes = [Note(self.at, "captured here")]
        if self.applied_at is not None and self.applied_at != self.at:
            notes.insert(0, Note(self.applied_at, "graph made here"))
        if fact.region is self:
            notes += [Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[self.depth :]]
        if len(notes) > 5:
            notes = [*notes[:2], *notes[-3:]]
        return tuple(notes)
