"""The machine: runs lowered code abstractly, in order, and writes down what happens as facts.

State that a branch may change (variables, attributes, container items) is written through `store`, which keeps a
journal; at a condition that is not known both branches run from the same state, and their effects are joined.

Glossary:
    root      the code an analysis starts from: a script, a function nobody calls, a method of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from graphlint.fact import Bind, Fact, Leave
from graphlint.interp import calls, evaluate, execute, functions
from graphlint.interp.effort import Way
from graphlint.interp.objects import ClassValue, FunctionValue, Scope
from graphlint.interp.tape import Activation
from graphlint.interp.torch_state import TorchState
from graphlint.lower import tree
from graphlint.region import Settings
from graphlint.source import Span
from graphlint.value import (
    HELD,
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from graphlint.interp.making import Maker
    from graphlint.interp.names import Names

V = TypeVar("V")
#: Calls below a root whose loops are run more than once.
SHALLOW = 4


def _passed(value: Const | Host) -> frozenset[Place]:
    """The origins of a scalar that is about to be known under another name: the old name is one of them."""
    return value.inputs if value.place is None or len(value.inputs) > 12 else value.inputs | {value.place}


class Machine(TorchState):
    """Runs one root. `life` is the tape of facts; `regions` the captures seen, in order."""

    def __init__(self, names: Names, settings: Settings, budget: int, with_capture: int) -> None:
        super().__init__(budget, with_capture, names.default_device)
        self.names = names
        self.settings = settings
        self.way: Way | None = None
        """Set while a root looks for its capture."""
        self.full_budget: int | None = None
        """The budget around a rationed call."""
        self.used: set[tuple[int, int]] = set()
        """(id of the receiver, id of the method's node) of every method that was run."""
        self.settled: set[tuple[int, int, str]] = set()
        """Branches that made their own test fail: see settling.py."""
        self.answered: dict[tuple[int, int], tuple[bool, ...]] = {}
        self.given: dict[tuple[int, Place | None], set[object]] = {}
        """(loop that runs on, id of a test's node) -> its last two different answers: see further.answer."""
        self.seen_as_table: dict[int, Instance] = {}
        """Objects whose attributes are looked at as a dictionary, by their id."""
        self.asking: set[tuple[int, str]] = set()
        """Attributes that `__getattr__` is being asked for: (id of the object, name)."""
        self.memo: dict[tuple[object, ...], Value] = {}
        self.stream_work: dict[tuple[object, ...], tuple[int, list[Fact]]] = {}
        """Of calls in `memo`: the length of the way to the call, and what it did with streams."""
        self.pure: dict[tuple[object, ...], Value] = {}
        self.inner_epoch = 0
        self.instances: list[Instance] = []
        self.abstract: dict[int, Instance] = {}
        self.pending: dict[int, Instance] = {}
        self.unfinished: dict[int, Maker] = {}
        """By the object's id: how its `__init__` was called that was left early."""
        self.made: list[Instance] = []
        self.annotations: dict[int, dict[str, tree.Expr]] = {}
        self.function_attrs: dict[int, dict[str, Value]] = {}
        self.unknown_attrs: dict[tuple[int, str, str], Value] = {}
        self.annotation_texts: dict[str, tree.Expr | None] = {}
        self.cached_calls: dict[tuple[object, ...], Value] = {}
        """What functions under `functools.cache` and the like have answered: see repeats.asked_before."""

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
            return Unknown(value.hint or place.name, value.inputs, place=place)
        if isinstance(value, Union):
            return Union(tuple(self.at_place(o, place) for o in value.options), place=place)
        if self.region is not None and isinstance(value, HELD):
            self.region.found_at.setdefault(place, set()).add(value.id)
        return value

    def append(self, sequence: Sequence, value: Value) -> None:
        """Appends; a list that grows in a branch keeps the item after it, and nobody knows how long it is then."""
        self.grows(sequence.id)
        if sequence.id < self.uncertain_since:
            sequence.sized = False
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

    def eval(self, node: tree.Expr) -> Value:
        return evaluate.evaluate(self, node)

    def run(self, body: tuple[tree.Stmt, ...]) -> str:
        """Runs statements; returns how the block ends: "" (falls through), "return", "break", "continue", "raise"."""
        return execute.run_block(self, body)

    def call(
        self, function: Value, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span, text: str = ""
    ) -> Value:
        return calls.call(self, function, args, kwargs, span, text)

    def instance_of(self, cls: Value, span: Span | None = None, **more: Any) -> Instance:
        made = self.location(span) if span is not None else None
        instance = Instance(cls=cls, made=made, born=self.region, **more)
        self.instances.append(instance)
        return instance

    def sequence(self, kind: str, items: list[Value], rest: Value | None = None, sized: bool = True) -> Sequence:
        return Sequence(kind=kind, items=items, rest=rest, born=self.region, sized=sized)

    def mapping(self, items: dict[object, Value] | None = None, rest: Value | None = None) -> Mapping:
        return Mapping(items=items if items is not None else {}, rest=rest, born=self.region)

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
        self.conditions, self.choices, self.journalling, self.uncertain_since = 0, 0, 0, 0
        self.journal.clear()
        for region in self.region_stack:
            region.end = self.order
        self.region_stack, self.region = [], None

    def run_protected(self, body: tuple[tree.Stmt, ...]) -> str:
        return self.run(body)

    def call_generator(
        self, function: FunctionValue, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span, on_yield: Any
    ) -> None:
        calls.run_generator(self, function, args, kwargs, span, on_yield)

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

    def loader_batches(self, loader: Instance) -> tuple[list[Value], bool]:
        """Batches of a DataLoader: of unknown number and content."""
        batch = Unknown("batch")
        return [batch, batch], False


def ExternalMethodOrUnknown(value: Unknown, name: str) -> Value:
    """An attribute of something unknown: it may be called, and then its name tells something."""
    from graphlint.interp.objects import ExternalMethod
    from graphlint.interp.tensors import TENSOR_ONLY

    if name in TENSOR_ONLY or name in ("replay", "capture_begin", "capture_end", "to"):
        return ExternalMethod(receiver=value, name=name)
    return Unknown(name)
