"""What happens in a program that captures a graph, one record for each event, in order of execution.

Facts are never changed once written (not frozen only because a frozen dataclass takes three times as long to make).
They say what was done, never whether it is wrong: rules judge. The same kinds hold inside and outside a capture;
`Fact.region` is the capture that the event lies in, None outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphlint.source import Location, Span
from graphlint.value import Place, Value

if TYPE_CHECKING:
    from graphlint.region import Region


@dataclass(frozen=True, slots=True)
class Frame:
    """A call on the way to a fact: `at` is the call expression, `function` the qualified name of what it enters."""

    at: Location
    function: str


@dataclass(slots=True, kw_only=True, eq=False)
class Fact:
    """`order` counts events; `chain` is the calls from the root down to this event (region.depth of them above the
    capture); `maybe` is true under a condition that is not known, `chosen` where it is not known which of several
    objects it is done with; `loops` are the loops around it, outermost first: (id of the loop, iteration 0 or 1, where
    1 stands for every later one)."""

    at: Location
    function: str
    order: int
    chain: tuple[Frame, ...] = ()
    region: Region | None = None
    maybe: bool = False
    chosen: bool = False
    loops: tuple[tuple[int, int], ...] = ()
    contexts: tuple[Context, ...] = ()
    """autocast, no_grad, stream ... blocks that are open, outermost first."""


@dataclass(slots=True, kw_only=True, eq=False)
class HostRead(Fact):
    """The host reads a value from a tensor: op is "item", "tolist", "cpu", "numpy", "to", "float", "int", "bool",
    "complex", "index", "format", "print", "repr", "log", "range", "slice", "size", "scalar-argument", "math" or
    "round"."""

    op: str
    value: Value
    text: str = ""
    """How the source spells it, for the message: `x.item()`."""


@dataclass(slots=True, kw_only=True, eq=False)
class Truth(Fact):
    """An implicit bool(): op is "if", "elif", "while", "assert", "ternary", "and", "or", "not", "comparison",
    "comprehension", "match", "any", "all", "min", "max", "sorted", "in". `value` is what is tested; a rule looks at
    its device, or, for a Host, at its source. `decided` is the branch taken where the value is known."""

    op: str
    value: Value
    decided: bool | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Branch(Fact):
    """One arm of an `if`, `while` or ternary is run: `taken` tells which, `body` is its extent (None if it is empty).

    `at` is the test, `value` what it came to; both arms leave a record where that is not known."""

    taken: bool
    value: Value
    text: str = ""
    body: Span | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Iterate(Fact):
    """A loop or comprehension starts over `value`; facts of its body have one more entry in `loops`."""

    value: Value


@dataclass(slots=True, kw_only=True, eq=False)
class Op(Fact):
    """A call of something outside the code that is read, by canonical name.

    name: "torch.full", "Tensor.masked_fill", "torch.nn.Linear.forward", "torch.optim.AdamW.step", "random.uniform",
    "numpy.random.rand", "torch.Generator.manual_seed", "torch.cuda.empty_cache", "torch.nn.Linear" (constructor) ...
    `receiver` is the object of a method; `args` and `kwargs` are the values passed; `result` is what came out.
    """

    name: str
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    receiver: Value | None = None
    result: Value | None = None
    text: str = ""

    def argument(self, position: int, name: str) -> Value | None:
        """The argument at `position` or under `name`, None if it was not passed."""
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if 0 <= position < len(self.args) else None


@dataclass(slots=True, kw_only=True, eq=False)
class Operator(Fact):
    """A Python operator with at least one tensor: op is the operator's text ("+", "<", "@", "+=" ...)."""

    op: str
    operands: tuple[Value, ...]
    result: Value


@dataclass(slots=True, kw_only=True, eq=False)
class Index(Fact):
    """`base[index]` is read, base being a tensor."""

    base: Value
    index: Value
    result: Value
    text: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Pick(Fact):
    """Captured code takes an entry of a Python container by a key read from somewhere: the choice is frozen."""

    container: Value
    key: Value


@dataclass(slots=True, kw_only=True, eq=False)
class Write(Fact):
    """A tensor's memory is written in place: how is "copy_", "fill_", "zero_", "setitem", "+=", "index_copy_", any
    other in-place method, or "out=". `index` is set for `target[index] = source`; `target` is then the whole base."""

    target: Value
    how: str
    source: Value | None = None
    index: Value | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Bind(Fact):
    """A place gets a value: `self.x = v`, `d[k] = v`, `x = v`. `old` is what it held, None if it held nothing.
    `owner` is the object or container (None for a name); `how` is "=", an augmented operator, "del", "del-attr"."""

    place: Place
    value: Value | None
    old: Value | None
    owner: Value | None = None
    how: str = "="
    text: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Keep(Fact):
    """A value is put into a container that lives on: how is "append", "extend", "setitem", "add", "yield", "put",
    "collect" (an element of a comprehension or of a generator that is gathered)."""

    container: Value
    value: Value
    how: str
    text: str = ""
    key: Value | None = None
    """The key of a `setitem`, if there is one."""


@dataclass(slots=True, kw_only=True, eq=False)
class Return(Fact):
    """A function returns. `at` is the return statement, `callee` the qualified name of what returns."""

    value: Value
    callee: str = ""


@dataclass(slots=True, kw_only=True, eq=False)
class Enter(Fact):
    """A function that was read is entered: `name` its qualified name, `defined` its `def` line, `given` its
    parameters by name, defaults included; `memo` if its results are cached (`functools.cache`, `cached_property`)."""

    name: str
    defined: Location
    args: tuple[Value, ...] = ()
    receiver: Value | None = None
    given: dict[str, Value] = field(default_factory=dict)
    memo: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Leave(Fact):
    """A call ends (outside a capture): `variables` are its locals at the end, which lose their names; `at` is the `def`
    line. Whatever nothing else refers to is freed."""

    scope: int
    variables: dict[str, Value]


@dataclass(slots=True, kw_only=True, eq=False)
class Unfollowed(Fact):
    """A call that could not be followed; `text` is the callee as the source spells it."""

    text: str
    args: tuple[Value, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Context(Fact):
    """A `with` block of an External is entered: `name` is "torch.autocast", "torch.no_grad", "torch.cuda.stream" ...
    `value` is the context manager (its args and kwargs are on the Instance)."""

    name: str
    value: Value


@dataclass(slots=True, kw_only=True, eq=False)
class ContextExit(Fact):
    entered: Context


@dataclass(slots=True, kw_only=True, eq=False)
class CaptureBegin(Fact):
    """`begun` is the region that starts here (`Fact.region` is the one around it, if captures are nested).
    `complete` is True if the way from the start of the program to here was seen, so that no caller is unknown."""

    begun: Region
    complete: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class CaptureEnd(Fact):
    """`ensured` is True in a `finally` block."""

    ended: Region
    ensured: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class Replay(Fact):
    """`g.replay()`, or the call of a graphed or compiled function; `replayed` are the regions it may be, `through` the
    names and attributes that the graph is read from: those of `self.last.graph` are `last` and `graph`."""

    replayed: tuple[Region, ...]
    graph: Value | None = None
    through: tuple[Place, ...] = ()


@dataclass(slots=True, kw_only=True, eq=False)
class Raises(Fact):
    """A `raise`, or an `except` handler around captured code (`handler` True; `caught` the type names): one record at
    its start, and one with the same `at` at its end, where `ended` tells how it ends ("", "return", "raise",
    "continue", "break") and `began` is the order of the first. `protects` are the regions captured in the try body."""

    handler: bool = False
    caught: tuple[str, ...] = ()
    protects: tuple[Region, ...] = ()
    ended: str | None = None
    began: int = 0
