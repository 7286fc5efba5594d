"""What is known of a Python value without running the code.

Glossary:
    tensor   a torch.Tensor: where it lives, its shape and dtype as far as known, and the storage behind it.
    storage  memory: two tensors with one storage are views of each other. Where and when it was made decides
             whether a graph owns it (made in a capture: private pool) or only borrows it (a static input).
    host     a Python number, string or bool whose value is not known; `source` says where it came from.
    place    where a value was read from: an attribute of an object, a key of a container, a name of a scope.
             A rebound place is what a replay does not see.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from graphlint.region import Region
    from graphlint.source import Location

#: Scopes and classes take theirs from here too: a place must not be taken for one of something else.
ids = itertools.count(1)

#: A known size, a symbol (two dims are equal if the symbol is), or None for unknown.
Dim: TypeAlias = "int | str | None"
Device = Literal["cuda", "cpu", "?"]


@dataclass(frozen=True, slots=True)
class Place:
    """`owner` identifies an object, a container or a scope; `name` the attribute, key or variable in it."""

    owner: int
    name: str
    kind: Literal["attribute", "item", "local", "global"]


#: The symbol of a host value that is the same whenever it is asked for begins so: a rank, the number of an object.
STEADY = "steady:"
#: Where "is a capture under way?" is read from: a value that depends on it has this among its origins.
CAPTURING = Place(0, "capturing", "global")


@dataclass(eq=False, slots=True)
class Value:
    """Base of all values. `place` is where this value was last read from, if that can be rebound."""

    place: Place | None = field(default=None, kw_only=True)


@dataclass(eq=False, slots=True)
class Unknown(Value):
    """Nothing is known; `hint` is the name it was read under, for messages and name-based doubt; `inputs` are the
    places of numbers that captured code computed it from, beside what is not known."""

    hint: str = ""
    inputs: frozenset[Place] = frozenset()


@dataclass(eq=False, slots=True)
class Const(Value):
    """A Python value known exactly: None, bool, number, string, bytes, Ellipsis, or a torch dtype/device by name."""

    value: object = None
    inputs: frozenset[Place] = frozenset()
    """Places that a folded result was computed from; `origins` adds its own."""


@dataclass(eq=False, slots=True)
class Host(Value):
    """A host scalar of unknown value.

    source: "read" (from a tensor: `read_at` says where), "shape", "loop", "param", "random", "time", "env", "other".
    inputs: places and sources that it was computed from, so that a number derived from `self.step` is known as such.
    """

    source: str = "other"
    kind: str = "number"
    read_at: Location | None = None
    inputs: frozenset[Place] = frozenset()
    symbol: str | None = None
    """Equal symbols are equal numbers: `n = x.shape[0]` gives the symbol of that dim."""


@dataclass(eq=False, slots=True)
class Storage:
    """Memory behind tensors.

    `born` is the region whose capture made it (None: made outside any capture), `epoch` the order of its making.
    `kind`: "fresh", "parameter", "buffer", "grad", "state" (optimizer), "unknown" (came from outside what was read).
    `temporary`: nothing but an expression ever held it.
    """

    kind: str = "fresh"
    born: Region | None = None
    made: Location | None = None
    epoch: int = 0
    pinned: bool = False
    graphed: object | None = None
    """The graphed callable that returned it, for make_graphed_callables and compiled functions."""
    id: int = field(default_factory=lambda: next(ids))


@dataclass(eq=False, slots=True)
class Tensor(Value):
    """A tensor. `view` tells how it looks at its storage: None (all of it), or a text such as "[:n]"."""

    storage: Storage = field(default_factory=Storage)
    device: Device = "?"
    shape: tuple[Dim, ...] | None = None
    dtype: str | None = None
    view: str | None = None
    requires_grad: bool = False
    grad_graph: bool = False
    """True if it is a result that keeps an autograd graph alive."""
    sure: bool = True
    """False if it is a tensor only by how it is used (a parameter nobody was seen to pass)."""
    stream: Value | None = None

    @property
    def numel_is_one(self) -> bool | None:
        if self.shape is None:
            return None
        if all(d == 1 for d in self.shape):
            return True
        return None if any(not isinstance(d, int) for d in self.shape) else False


@dataclass(eq=False, slots=True)
class Sequence(Value):
    """A list, tuple, set, deque, range, generator or ModuleList. `rest` stands for further unknown items.

    sized: False if it has other items than those held, which stand for all: it was cut short, or made in a loop that
    runs on, or is a slice whose bounds are not known. The items of a range are its bounds.
    placed: False if any of the items may be missing, so that it is not known which stands where.
    """

    kind: str = "list"
    items: list[Value] = field(default_factory=list)
    rest: Value | None = None
    born: Region | None = None
    sized: bool = True
    placed: bool = True
    id: int = field(default_factory=lambda: next(ids))

    @property
    def length(self) -> int | None:
        """How many items it has, None if that is not known."""
        if self.rest is not None or not self.sized:
            return None
        if self.kind != "range":
            return len(self.items)
        numbers = self.numbers
        return None if numbers is None else len(numbers)

    @property
    def numbers(self) -> range | None:
        """The numbers of a range whose bounds are all known."""
        bounds = [i.value for i in self.items if isinstance(i, Const) and isinstance(i.value, int)]
        if self.kind != "range" or len(bounds) != len(self.items) or not 0 < len(bounds) < 4:
            return None
        return range(*bounds) if len(bounds) < 3 or bounds[2] else None


@dataclass(eq=False, slots=True)
class Mapping(Value):
    """A dict, ModuleDict, SimpleNamespace or **kwargs. `rest` is the value under unknown keys."""

    kind: str = "dict"
    items: dict[object, Value] = field(default_factory=dict)
    rest: Value | None = None
    keys: Value | None = None
    born: Region | None = None
    id: int = field(default_factory=lambda: next(ids))


@dataclass(eq=False, slots=True)
class External(Value):
    """A name of a package that is not read, by its canonical dotted name: `torch.cuda.graph`, `numpy.array`."""

    name: str = ""


@dataclass(eq=False, slots=True)
class Instance(Value):
    """An object. `cls` is the class read from source (a ClassValue) or the External that was called.

    args and kwargs are what the constructor of an External class got (`torch.optim.AdamW(..., capturable=True)`).
    """

    cls: Value = field(default_factory=Unknown)
    attrs: dict[str, Value] = field(default_factory=dict)
    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    made: Location | None = None
    born: Region | None = None
    complete: bool = True
    """False if its constructor was not seen: attributes that were not found are unknown, not missing."""
    id: int = field(default_factory=lambda: next(ids))

    @property
    def external(self) -> str:
        """The canonical dotted name of an External class, or ""."""
        return self.cls.name if isinstance(self.cls, External) else ""


@dataclass(eq=False, slots=True)
class Union(Value):
    """One of several values, by a condition that is not known. Never nested."""

    options: tuple[Value, ...] = ()


NONE = Const(None)
#: What can be changed where it stands: captured code that reads it from a place leaves that to be seen in the region.
HELD = (Instance, Sequence, Mapping)


def origins(value: Value) -> frozenset[Place]:
    """Every rebindable place that a scalar was read from or computed from."""
    if isinstance(value, (Const, Host)):
        return value.inputs if value.place is None else value.inputs | {value.place}
    if isinstance(value, Union):
        return frozenset().union(*(origins(o) for o in value.options))
    return frozenset() if value.place is None else frozenset({value.place})


def options(value: Value) -> tuple[Value, ...]:
    """The values that `value` may be."""
    return value.options if isinstance(value, Union) else (value,)


def join(*values: Value) -> Value:
    """Any of `values`; equal constants and identical objects are merged, more than eight become unknown."""
    flat: list[Value] = []
    for value in values:
        for option in options(value):
            if not any(_same(option, other) for other in flat):
                flat.append(option)
            if len(flat) == 8:  # nothing later counts, and long tables would take quadratic time
                return Union(tuple(flat))
    if not flat:
        return Unknown()
    if len(flat) > 1:
        flat = _told(flat)
    if len(flat) == 1:
        return flat[0]
    return Union(tuple(flat))


def _told(values: list[Value]) -> list[Value]:
    """`values` without objects nobody was seen to make where one of their class was: that one tells more."""
    seen = {id(v.cls) for v in values if isinstance(v, Instance) and v.complete}
    return [v for v in values if not isinstance(v, Instance) or v.complete or id(v.cls) not in seen]


def _same(a: Value, b: Value) -> bool:
    if a is b:
        return True
    if isinstance(a, Const) and isinstance(b, Const):
        return type(a.value) is type(b.value) and a.value == b.value
    if isinstance(a, Unknown) and isinstance(b, Unknown):
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.storage is b.storage and a.view == b.view
    return isinstance(a, External) and isinstance(b, External) and a.name == b.name


def tensors(value: Value, depth: int = 4) -> list[Tensor]:
    """All tensors in `value`: itself, and those in unions, sequences, mappings and attributes, `depth` levels down."""
    kind = type(value)
    if depth < 0 or (kind is not Tensor and kind not in _HOLDERS):
        return []
    if kind is Tensor:
        return [value]  # type: ignore[list-item]
    return list(once("tensors", value, depth, _tensors))


def _tensors(value: Value, depth: int) -> list[Tensor]:
    found: list[Tensor] = []
    _collect(value, depth, found, set())
    return found


def _collect(value: Value, depth: int, found: list[Tensor], seen: set[int]) -> None:
    kind = type(value)
    if depth < 0 or (kind is not Tensor and kind not in _HOLDERS) or id(value) in seen:
        return
    seen.add(id(value))
    if kind is Tensor:
        found.append(value)  # type: ignore[arg-type]
        return
    if isinstance(value, Union):
        for option in value.options:
            _collect(option, depth, found, seen)
        return
    for item in parts(value):
        _collect(item, depth - 1, found, seen)


def parts(value: Value) -> list[Value]:
    """What a container or an object holds directly."""
    if isinstance(value, Sequence):
        return [*value.items, value.rest] if value.rest is not None else list(value.items)
    if isinstance(value, Mapping):
        held = list(value.items.values())
        return [*held, value.rest] if value.rest is not None else held
    return list(value.attrs.values()) if isinstance(value, Instance) else []


_HOLDERS = frozenset({Union, Sequence, Mapping, Instance})
T = TypeVar("T")
_Answers: TypeAlias = "dict[tuple[str, int, int], tuple[Value, object]]"
#: Of each thread in which values no longer change, what was answered about them.
_frozen: dict[int, _Answers] = {}


@contextmanager
def frozen() -> Iterator[None]:
    """Inside, no value changes any more (in this thread), so that `once` need not answer twice."""
    _frozen[get_ident()] = {}
    try:
        yield
    finally:
        del _frozen[get_ident()]


def once(question: str, value: Value, depth: int, answer: Callable[[Value, int], T]) -> T:
    """`answer(value, depth)`, remembered where values are frozen: not to be changed by the caller."""
    known = _frozen.get(get_ident())
    if known is None:
        return answer(value, depth)
    key = (question, id(value), depth)
    if key not in known:
        known[key] = (value, answer(value, depth))  # the value too, so that nothing else gets its id
    return known[key][1]  # type: ignore[return-value]
