"""The machine: runs lowered code abstractly, in order, and writes down what happens as facts.

State that a branch may change (variables, attributes, container items) is written through `Machine.store`, which
keeps a journal; at a condition that is not known both branches run from the same state, and their effects are joined.

Glossary:
    root      the code an analysis starts from: a script, a function nobody calls, a method of a class.
    tick      a unit of work; a root that spends its budget is stopped, and says so.
    journal   (dictionary, key, old value) of every write since the innermost open branch began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from graphlint.fact import Bind, Context, ContextExit, Fact, Frame, Leave
from graphlint.interp import calls, evaluate, execute, functions
from graphlint.interp.effort import Way
from graphlint.interp.objects import BudgetSpent, ClassValue, FunctionValue, Scope
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.region import Reached, Region, Settings
from graphlint.source import Location, Span
from graphlint.value import (
    Const,
    Device,
    Dim,
    External,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Storage,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
    tensors,
)

if TYPE_CHECKING:
    from graphlint.interp.making import Maker
    from graphlint.interp.names import Names

F = TypeVar("F", bound=Fact)
V = TypeVar("V")
#: Calls below a root whose loops are run more than once.
SHALLOW = 4
Journal = list[tuple[dict[Any, Value], Any, "Value | None"]]
Delta = dict[tuple[int, Any], tuple[dict[Any, Value], Any, "Value | None"]]


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


def _passed(value: Const | Host) -> frozenset[Place]:
    """The origins of a scalar that is about to be known under another name: the old name is one of them."""
    return value.inputs if value.place is None or len(value.inputs) > 12 else value.inputs | {value.place}


class Machine:
    """Runs one root. `life` is the tape of facts; `regions` the captures seen, in order."""

    def __init__(self, names: Names, settings: Settings, budget: int, with_capture: int) -> None:
        self.names = names
        self.settings = settings
        self.budget = budget
        self.with_capture = with_capture
        self.way: Way | None = None
        """Set while a root looks for its capture."""
        self.full_budget: int | None = None
        """The budget around a rationed call."""
        self.hurried = False
        """Whether a call was left early."""
        self.ticks = 0
        self.life: list[Fact] = []
        self.regions: list[Region] = []
        self.region: Region | None = None
        self.region_stack: list[Region] = []
        self.chain: tuple[Frame, ...] = ()
        self.stack: list[Activation] = []
        self.conditions = 0
        self.loops: tuple[tuple[int, int], ...] = ()
        self.contexts: tuple[Context, ...] = ()
        self.journal: Journal = []
        self.journalling = 0
        self.order = 0
        self.epoch = 0
        self.loop_ids = 0
        self.inexact: set[int] = {-1}
        self.default_device: Device = names.default_device
        self.used: set[tuple[int, int]] = set()
        """(id of the receiver, id of the method's node) of every method that was run."""
        self.memo: dict[tuple[object, ...], Value] = {}
        self.pure: dict[tuple[object, ...], Value] = {}
        self.inner_epoch = 0
        self.graph_regions: dict[int, list[Region]] = {}
        self.finals = 0
        self.complete = False
        self.instances: list[Instance] = []
        self.abstract: dict[int, Instance] = {}
        self.pending: dict[int, Instance] = {}
        self.unfinished: dict[int, Maker] = {}
        """By the object's id: how its `__init__` was called that was left early."""
        self.building = 0
        self.path = ""
        self.made: list[Instance] = []
        self.annotations: dict[int, dict[str, tree.Expr]] = {}
        self.tensor_attrs: dict[int, dict[str, Value]] = {}
        self.function_attrs: dict[int, dict[str, Value]] = {}
        self.unknown_attrs: dict[tuple[int, str, str], Value] = {}
        self.annotation_texts: dict[str, tree.Expr | None] = {}
        self.cached_calls: dict[tuple[int, int], Value] = {}
        self.inductor_cudagraphs = False
        self.default_stream = Instance(cls=External("torch.cuda.Stream"))
        self.set_stream: Value | None = None
        self.capture_streams: dict[int, Instance] = {}

    # ------------------------------------------------------------------------------------------ tape

    def tick(self, cost: int = 1) -> None:
        self.ticks += cost
        if self.ticks > self.budget:
            for region in self.region_stack:
                region.spent = True
            raise BudgetSpent

    @property
    def function_name(self) -> str:
        return self.stack[-1].name if self.stack else ""

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

    # ----------------------------------------------------------------------------------------- values

    def tensor(
        self,
        span: Span | None = None,
        *,
        device: Device = "?",
        shape: tuple[Dim, ...] | None = None,
        dtype: str | None = None,
        kind: str = "fresh",
        **more: Any,
    ) -> Tensor:
        """A tensor in new memory, made here and now: by the graph's pool inside a capture."""
        self.epoch += 1
        made = self.location(span) if span is not None else None
        born = self.region if kind not in ("parameter", "unknown") else None
        pinned = bool(more.pop("pinned", False))
        storage = Storage(kind=kind, born=born, made=made, epoch=self.epoch, pinned=pinned)
        return Tensor(storage=storage, device=device, shape=shape, dtype=dtype, **more)

    def at_place(self, value: Value, place: Place) -> Value:
        """`value` as read from `place`: scalars, tensors and unknowns remember it, objects need not."""
        if value.place == place:
            return value
        if isinstance(value, Const):
            return Const(value.value, _passed(value), place=place)
        if isinstance(value, Host):
            return Host(value.source, value.kind, value.read_at, _passed(value), value.symbol, place=place)
        if isinstance(value, Tensor):
            return Tensor(
                value.storage, value.device, value.shape, value.dtype, value.view,
                value.requires_grad, value.grad_graph, value.sure, value.stream, place=place,
            )  # fmt: skip
        if isinstance(value, Unknown):
            return Unknown(value.hint or place.name, place=place)
        if isinstance(value, Union):
            return Union(tuple(self.at_place(o, place) for o in value.options), place=place)
        return value

    # ---------------------------------------------------------------------------------------- writing

    def store(self, target: dict[Any, Value], key: Any, value: Value) -> None:
        """Writes through the journal."""
        if self.journalling:
            self.journal.append((target, key, target.get(key)))
        target[key] = value

    def remove(self, target: dict[Any, Value], key: Any) -> None:
        if key in target:
            if self.journalling:
                self.journal.append((target, key, target[key]))
            del target[key]

    def append(self, sequence: Sequence, value: Value) -> None:
        """Appends; a list that grows in a branch keeps the item after it."""
        if len(sequence.items) < 12:
            sequence.items.append(value)
        else:
            sequence.rest = value if sequence.rest is None else join(sequence.rest, value)

    def bind(
        self, span: Span, target: dict[Any, Value], place: Place, value: Value, *,
        owner: Value | None = None, how: str = "=", text: str = "", key: Any = None,
    ) -> None:  # fmt: skip
        """Stores under `key` (default the place's name) and writes a Bind fact where it can matter."""
        name = place.name if key is None else key
        old = target.get(name)
        self.store(target, name, value)
        self.emit(Bind, span, place=place, value=value, old=old, owner=owner, how=how, text=text)

    # --------------------------------------------------------------------------------------- branches

    def rollback(self, mark: int) -> Delta:
        """Undoes the journal down to `mark` and returns what it had changed: (dict id, key) -> (dict, key, new)."""
        delta: Delta = {}
        while len(self.journal) > mark:
            target, key, old = self.journal.pop()
            slot = (id(target), key)
            if slot not in delta:
                delta[slot] = (target, key, target.get(key))
            if old is None:
                target.pop(key, None)
            else:
                target[key] = old
        return delta

    def merge(self, deltas: list[Delta]) -> None:
        """Applies the join of several branches' effects to the present state (the state before them)."""
        if not deltas:
            return
        slots: dict[tuple[int, Any], tuple[dict[Any, Value], Any]] = {}
        for delta in deltas:
            for slot, (target, key, _) in delta.items():
                slots.setdefault(slot, (target, key))
        for slot, (target, key) in slots.items():
            before = target.get(key)
            values: list[Value] = []
            for delta in deltas:
                new = delta[slot][2] if slot in delta else before
                if new is not None:
                    values.append(new)
            if values:
                self.store(target, key, join(*values))
            else:
                self.remove(target, key)

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

    # ---------------------------------------------------------------------------------------- regions

    def open_region(self, region: Region, span: Span) -> None:
        from graphlint.fact import CaptureBegin

        # The way to a capture was found: now what it does, and what is done with it, is worth more work.
        if not self.building:
            self.budget = max(self.budget, self.with_capture)
        region.life, region.hurried = self.life, self.hurried
        region.depth = len(self.chain)
        self.emit(CaptureBegin, span, begun=region, complete=self.complete)
        region.begin = self.order
        self.regions.append(region)
        self.region_stack.append(region)
        self.region = region
        if region.graph is not None:
            for option in region.graph.options if isinstance(region.graph, Union) else (region.graph,):
                if isinstance(option, Instance):
                    self.graph_regions.setdefault(option.id, []).append(region)

    def close_region(self, span: Span) -> None:
        from graphlint.fact import CaptureEnd

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

    @contextmanager
    def context(self, fact: Context, span: Span) -> Iterator[None]:
        saved = self.contexts
        self.contexts = (*saved, fact)
        try:
            yield
        finally:
            self.contexts = saved
            self.emit(ContextExit, span, entered=fact)

    # --------------------------------------------------------------------------- the walk (other files)

    def eval(self, node: tree.Expr) -> Value:
        return evaluate.evaluate(self, node)

    def run(self, body: tuple[tree.Stmt, ...]) -> str:
        """Runs statements; returns how the block ends: "" (falls through), "return", "break", "continue", "raise"."""
        return execute.run_block(self, body)

    def call(
        self, function: Value, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span, text: str = ""
    ) -> Value:
        return calls.call(self, function, args, kwargs, span, text)

    @property
    def scope(self) -> Scope:
        return self.stack[-1].scope

    def instance_of(self, cls: Value, span: Span | None = None, **more: Any) -> Instance:
        made = self.location(span) if span is not None else None
        instance = Instance(cls=cls, made=made, born=self.region, **more)
        self.instances.append(instance)
        return instance

    def sequence(self, kind: str, items: list[Value], rest: Value | None = None) -> Sequence:
        return Sequence(kind=kind, items=items, rest=rest, born=self.region)

    def mapping(self, items: dict[object, Value] | None = None, rest: Value | None = None) -> Mapping:
        return Mapping(items=items if items is not None else {}, rest=rest, born=self.region)

    # ------------------------------------------------------------------------------------ helpers of the walk

    def eval_in(self, scope: Scope, node: tree.Expr) -> Value:
        """Evaluates in another scope, as part of nobody's call."""
        self.stack.append(Activation(None, scope, self.function_name))
        saved, self.path = self.path, str(scope.module.path)
        try:
            return self.eval(node)
        finally:
            self.stack.pop()
            self.path = saved

    def run_in(self, scope: Scope, body: tuple[tree.Stmt, ...]) -> str:
        self.stack.append(Activation(None, scope, "" if scope.is_module else self.function_name))
        saved, self.path = self.path, str(scope.module.path)
        try:
            return self.run(body)
        finally:
            self.stack.pop()
            self.path = saved

    def decorate(self, function: FunctionValue) -> Value:
        """A method with its decorators applied, as the class body would have done it."""
        with self.quiet():
            self.stack.append(Activation(None, function.scope, self.function_name))
            self.path = str(function.scope.module.path)
            try:
                return functions.decorated(self, function, function.scope)
            finally:
                self.stack.pop()

    def rounds(self, items: list[Value], exact: bool) -> list[Value]:
        """How often a loop of unknown length is run: once deep inside code that no script was seen to call, where what
        a second round would show is not worth its price."""
        if not exact and self.region is None and not self.complete and len(self.stack) > SHALLOW:
            return items[-1:]
        return items

    def in_later_round(self) -> bool:
        """True in the second and later rounds of a loop whose number of rounds is not known."""
        return any(index and loop in self.inexact for loop, index in self.loops)

    def run_frame(self, scope: Scope, work: Callable[[], V]) -> V:
        """Runs `work` with a frame to stand on, as a module's own code would."""
        self.stack.append(Activation(None, scope, ""))
        try:
            return work()
        finally:
            self.stack.pop()

    def reset_control(self) -> None:
        """After the budget was spent in the middle: no frame, branch or capture is open any more."""
        self.stack, self.chain, self.loops, self.contexts = [], (), (), ()
        self.conditions, self.journalling = 0, 0
        self.journal.clear()
        for region in self.region_stack:
            region.end = self.order
        self.region_stack, self.region = [], None

    def run_protected(self, body: tuple[tree.Stmt, ...]) -> str:
        return self.run(body)

    @contextmanager
    def quiet_reading(self) -> Iterator[None]:
        """Evaluates for information only: the facts are thrown away."""
        length, order = len(self.life), self.order
        try:
            yield
        finally:
            del self.life[length:]
            self.order = order

    def call_generator(
        self, function: FunctionValue, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span, on_yield: Any
    ) -> None:
        calls.run_generator(self, function, args, kwargs, span, on_yield)

    def merge_weakly(self, deltas: list[Delta]) -> None:
        """Effects of paths that returned earlier: what they wrote is possible beside what is there now."""
        for delta in deltas:
            for target, key, new in delta.values():
                if new is not None:
                    now = target.get(key)
                    self.store(target, key, new if now is None else join(now, new))

    def leave_scope(self, scope: Scope, node: tree.Function) -> None:
        """A call ends: its locals lose their names."""
        if self.region is None:
            self.emit(Leave, node.span, scope=scope.id, variables=dict(scope.variables))

    def hinted(self, name: str) -> Value:
        """A value nobody was seen to give, by what its name promises."""
        if self.settings.cpu_names and any(name.endswith(n.strip("*")) for n in self.settings.cpu_names):
            return self.tensor(kind="unknown", device="cpu", sure=False)
        return Unknown(name)

    def unknown_attribute(self, value: Unknown, name: str) -> Value:
        place = value.place
        if place is not None:
            slot = (place.owner, place.name, name)
            if slot not in self.unknown_attrs:
                self.unknown_attrs[slot] = ExternalMethodOrUnknown(value, name)
            return self.unknown_attrs[slot]
        return ExternalMethodOrUnknown(value, name)

    def parse_annotation(self, text: str) -> tree.Expr | None:
        from pathlib import Path

        from graphlint.lower import lower_statements
        from graphlint.source import Source, SourceError

        if text in self.annotation_texts:
            return self.annotation_texts[text]
        parsed: tree.Expr | None = None
        if len(text) < 200 and "\n" not in text:
            try:
                statements = lower_statements(Source(Path("<annotation>"), text), 1, 1)
                if statements and isinstance(statements[0], tree.ExprStmt):
                    parsed = statements[0].value
            except SourceError:
                parsed = None
        self.annotation_texts[text] = parsed
        return parsed

    def class_annotation(self, cls: ClassValue, name: str) -> Value | None:
        """A value of the type that a class body annotates `name` with."""
        for ancestor in cls.mro:
            for statement in ancestor.node.body:
                if (
                    isinstance(statement, tree.AnnAssign)
                    and isinstance(statement.target, tree.Name)
                    and statement.target.id == name
                ):
                    return self.names.annotated(self, statement.annotation, ancestor.scope)
        return None

    def set_external(self, target: External, name: str, value: Value, span: Span) -> None:
        """`torch._inductor.config.triton.cudagraphs = True` and other switches."""
        full = f"{target.name}.{name}"
        if full in ("torch._inductor.config.triton.cudagraphs",) and isinstance(value, Const):
            self.inductor_cudagraphs = bool(value.value)
        place = Place(0, full, "global")
        self.emit(Bind, span, place=place, value=value, old=None, owner=target, text=full)

    def current_stream(self) -> Value:
        """The stream of the innermost stream block, the capture's own inside one, else the default stream."""
        if self.region is not None and self.region.kind in ("graph", "accelerator-graph"):
            begin = self.region.begin
            for context in reversed(self.contexts):
                if context.order < begin:
                    break
                if (found := stream_of(context)) is not None:
                    return found
            if self.region.stream is not None and not isinstance(self.region.stream, Const):
                return self.region.stream
            return self.capture_streams.setdefault(id(self.region), Instance(cls=External("torch.cuda.Stream")))
        for context in reversed(self.contexts):
            if (found := stream_of(context)) is not None:
                return found
        return self.set_stream if self.set_stream is not None else self.default_stream

    def grad_of(self, parameter: Tensor) -> Tensor:
        attrs = self.tensor_attrs.setdefault(parameter.storage.id, {})
        grad = attrs.get("$grad")
        if not isinstance(grad, Tensor):
            grad = self.tensor(device=parameter.device, shape=parameter.shape, dtype=parameter.dtype, kind="grad")
            attrs["$grad"] = grad
        return grad

    def clear_grads(self, parameters: list[Tensor]) -> None:
        for parameter in parameters:
            self.tensor_attrs.get(parameter.storage.id, {}).pop("$grad", None)

    def fill_grads(self) -> None:
        """A backward gives parameters a gradient again that had been set to None."""
        for attrs in self.tensor_attrs.values():
            held = attrs.get("grad")
            if isinstance(held, Const) and held.value is None:
                self.remove(attrs, "grad")

    def loader_batches(self, loader: Instance) -> tuple[list[Value], bool]:
        """Batches of a DataLoader: of unknown number and content."""
        batch = Unknown("batch")
        return [batch, batch], False


def stream_of(context: Context) -> Value | None:
    """The stream that a block makes current, if it is a stream block."""
    if context.name in ("torch.cuda.stream", "torch.accelerator.stream", "torch.xpu.stream"):
        if isinstance(context.value, Instance):
            return context.value.args[0] if context.value.args else context.value.kwargs.get("stream")
    elif context.name in ("torch.cuda.Stream", "torch.Stream"):
        return context.value
    return None


def ExternalMethodOrUnknown(value: Unknown, name: str) -> Value:
    """An attribute of something unknown: it may be called, and then its name tells something."""
    from graphlint.interp.objects import ExternalMethod
    from graphlint.interp.tensors import TENSOR_ONLY

    if name in TENSOR_ONLY or name in ("replay", "capture_begin", "capture_end"):
        return ExternalMethod(receiver=value, name=name)
    return Unknown(name)
