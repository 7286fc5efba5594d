"""The tape: where the machine stands, what happened so far, and which captures are open.

Glossary:
    tick      a unit of work; a root that spends its budget is stopped, and says so.
    life      all facts of a root, in order; a region is a window on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from graphlint.fact import CaptureBegin, CaptureEnd, Context, ContextExit, Fact, Frame
from graphlint.interp.objects import BudgetSpent, FunctionValue, Scope
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.region import Reached, Region
from graphlint.source import Location, Span
from graphlint.value import Instance, Place, Union, Value, ids, tensors

if TYPE_CHECKING:
    from graphlint.interp.journal import Delta

F = TypeVar("F", bound=Fact)


@dataclass(slots=True)
class Activation:
    """One call in progress."""

    function: FunctionValue | None
    scope: Scope
    name: str
    returns: list[Value] = field(default_factory=list)
    deltas: list[Delta] = field(default_factory=list)
    """Effects of paths that have returned already."""
    yields: list[Value] = field(default_factory=list)
    on_yield: Any = None
    mark: int = 0
    conditional: int = 0
    """Length of the machine's condition stack when the call began."""


class Tape:
    """Facts in order, the calls and blocks around them, and the work that they may still cost."""

    def __init__(self, budget: int, with_capture: int) -> None:
        self.budget = budget
        self.with_capture = with_capture
        """The budget once a capture has begun."""
        self.ticks = 0
        self.hurried = False
        """Whether a call was left early."""
        self.complete = False
        """Whether the root is a script: nothing calls it with other arguments."""
        self.building = 0
        """How many objects that nobody was seen to make are being made."""
        self.life: list[Fact] = []
        self.order = 0
        self.path = ""
        self.stack: list[Activation] = []
        self.chain: tuple[Frame, ...] = ()
        self.contexts: tuple[Context, ...] = ()
        self.conditions = 0
        self.choices = 0
        """Calls under way of which nobody knows which of several they are."""
        self.finals = 0
        self.loop_ids = 0
        self.loops: tuple[tuple[int, int], ...] = ()
        self.inexact: set[int] = {-1}
        """Loops whose number of rounds is not known."""
        self.shortened: set[int] = set()
        """Loops that have more rounds than are run."""
        self.drained: dict[int, int] = {}
        """The loop that runs until a container is empty, by the number of the container."""
        self.taken: dict[int, tuple[str, Value]] = {}
        """The last item taken out of a container, by the container's number, and the end that it came from."""
        self.members: dict[tuple[int, str], Instance] = {}
        """What the `__init__` of an enumeration made of each member, by the number of the class and the name."""
        self.uncertain_since = 0
        """The number of the last value that was made before what may not be run, or more often than here: an arm of a
        branch, a later round of a loop that runs on."""
        self.grown: set[tuple[int, int]] = set()
        """(id of a table, loop of unknown length) where the table gets entries in the loop."""
        self.promised: dict[int, list[tuple[Callable[[], object], int, int]]] = {}
        """What each exit stack is to call when it is left, with the blocks and captures that were open before."""
        self.regions: list[Region] = []
        self.region: Region | None = None
        self.region_stack: list[Region] = []
        self.graph_regions: dict[int, list[Region]] = {}
        self.tasks: list[tuple[Instance, Instance]] = []
        """Calls that wait for the event loop to begin in other threads, each with the job that it will be."""
        self.through: tuple[Place, ...] = ()
        """Where the object was read from that a method is called on which may replay its graph."""

    def tick(self, cost: int = 1) -> None:
        self.ticks += cost
        if self.ticks > self.budget:
            for region in self.region_stack:
                region.spent = True
            raise BudgetSpent

    @property
    def function_name(self) -> str:
        return self.stack[-1].name if self.stack else ""

    @property
    def scope(self) -> Scope:
        return self.stack[-1].scope

    def location(self, span: Span) -> Location:
        return Location(self.path, span)

    def emit(self, kind: type[F], span: Span, **fields: Any) -> F:
        """Writes a fact of `kind` at `span` of the file being run."""
        self.order += 1
        fact = kind(
            at=Location(self.path, span),
            function=self.function_name,
            order=self.order,
            chain=self.chain,
            region=self.region,
            maybe=self.conditions > 0,
            chosen=self.choices > 0,
            loops=self.loops,
            contexts=self.contexts,
            **fields,
        )
        self.life.append(fact)
        return fact

    def reads(self, fact: Fact, *values: Value | None) -> None:
        """Notes that captured work of `fact` reads the tensors in `values`."""
        if self.region is None:
            return
        for value in values:
            if value is not None:
                for tensor in tensors(value, 2):
                    if tensor.storage.born is None:
                        self.region.inputs.setdefault(tensor.storage, fact)

    def writes(self, fact: Fact, value: Value) -> None:
        """Notes that captured work of `fact` writes the tensor `value` in place."""
        if self.region is not None:
            for tensor in tensors(value, 1):
                if tensor.storage.born is None:
                    self.region.writes.setdefault(tensor.storage, fact)

    @contextmanager
    def condition(self) -> Iterator[None]:
        """What runs inside may not happen."""
        self.conditions += 1
        try:
            yield
        finally:
            self.conditions -= 1

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Runs something that belongs to another time (a module's import, an annotation): outside any capture."""
        saved = self.region, self.region_stack, self.chain, self.loops, self.conditions, self.contexts, self.path
        self.region, self.region_stack, self.loops, self.conditions, self.contexts = None, [], (), 0, ()
        try:
            yield
        finally:
            self.region, self.region_stack, self.chain, self.loops, self.conditions, self.contexts, self.path = saved

    @contextmanager
    def quiet_reading(self) -> Iterator[None]:
        """Evaluates for information only: the facts are thrown away."""
        length, order = len(self.life), self.order
        try:
            yield
        finally:
            del self.life[length:]
            self.order = order

    @contextmanager
    def context(self, fact: Context, span: Span) -> Iterator[None]:
        saved = self.contexts
        self.contexts = (*saved, fact)
        try:
            yield
        finally:
            self.contexts = saved
            self.emit(ContextExit, span, entered=fact)

    def in_later_round(self) -> bool:
        """True in the second and later rounds of a loop that has more rounds than are run."""
        return any(index and self.runs_on(loop) for loop, index in self.loops)

    def grows(self, container: int) -> None:
        """A table gets another entry: in a loop that is not run to its end nobody knows how many it gets there."""
        self.grown |= {(container, loop) for loop, _ in self.loops if self.runs_on(loop) and loop >= 0}

    def has_grown(self, container: int) -> bool:
        """True in a later round of a loop that is not run to its end, in which a table grows."""
        return any(index and (container, loop) in self.grown for loop, index in self.loops)

    def in_inexact_loop(self, container: int = 0) -> bool:
        """True in a loop that has more rounds than are run: what is taken out once there is taken out more often.

        Not so of a `container` that a loop within it empties, each time."""
        first = self.drained.get(container)
        return any(self.runs_on(loop) for loop, _ in self.loops if first is None or loop > first)

    def runs_on(self, loop: int) -> bool:
        return loop in self.inexact or loop in self.shortened

    def open_region(self, region: Region, span: Span) -> None:
        # The way to a capture was found: now what it does, and what is done with it, is worth more work.
        if not self.building:
            self.budget = max(self.budget, self.with_capture)
        region.life, region.hurried = self.life, self.hurried
        region.depth = len(self.chain)
        self.emit(CaptureBegin, span, begun=region, complete=self.complete)
        region.begin, region.since = self.order, next(ids)
        self.regions.append(region)
        self.region_stack.append(region)
        self.region = region
        if region.graph is not None:
            for option in region.graph.options if isinstance(region.graph, Union) else (region.graph,):
                if isinstance(option, Instance):
                    self.graph_regions.setdefault(option.id, []).append(region)

    def close_region(self, span: Span) -> None:
        if not self.region_stack:
            return
        region = self.region_stack.pop()
        self.region = self.region_stack[-1] if self.region_stack else None
        self.emit(CaptureEnd, span, ended=region, ensured=self.finals > 0)
        region.end = self.order

    def abandon(self, node: tree.Function | tree.Lambda) -> None:
        """Closes captures that the function which ends here began and, on this path, did not end though it can."""
        if not isinstance(node, tree.Function):
            return
        first, last = node.lines
        lines = self.stack[-1].scope.module.source.lines[first - 1 : last]
        while self.region_stack and self.region_stack[-1].kind == "begin-end":
            if self.region_stack[-1].depth != len(self.chain) or not any("capture_end" in line for line in lines):
                return
            region = self.region_stack.pop()
            self.region = self.region_stack[-1] if self.region_stack else None
            region.end = self.order

    def reach(self, function: FunctionValue, module: Module) -> None:
        if self.region is not None and isinstance(function.node, tree.Function):
            at = Location(str(module.path), function.node.span)
            for region in self.region_stack:
                region.reaches.setdefault(Reached(at, function.name))

    def unfollowed(self, span: Span, text: str) -> None:
        for region in self.region_stack:
            region.unresolved.setdefault((self.location(span), text))
