"""Named tuples: `collections.namedtuple`, classes that derive from one, and `typing.NamedTuple`.

An object of one has its fields as attributes and, under `$items`, as items in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import iteration
from graphlint.interp.objects import ClassValue
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Sequence, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
#: The class that a call of `collections.namedtuple` makes, and what its objects are.
CLASS, OBJECT = "collections.namedtuple-class", "collections.namedtuple"


def make_class(m: Machine, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """`namedtuple("Entry", "graph x y")`."""
    return m.instance_of(External(CLASS), span, args=args, kwargs=kwargs)


def is_class(value: Value) -> bool:
    return isinstance(value, Instance) and value.external == CLASS


def base_of(cls: ClassValue) -> Instance | None:
    """The named tuple that a class read from source derives from."""
    for ancestor in cls.mro:
        for base in ancestor.bases:
            if isinstance(base, Instance) and is_class(base):
                return base
    return None


def make(m: Machine, cls: Instance, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """An object of a class that `namedtuple` made."""
    made = m.instance_of(External(OBJECT), span)
    return made if fill(m, made, cls, args, kwargs) else Unknown("namedtuple()")


def fill(m: Machine, made: Instance, cls: Instance, args: Args, kwargs: Kwargs) -> bool:
    """Gives an object its fields; False if these, or what they get, are not known."""
    names = _names(cls.args[1]) if len(cls.args) > 1 else None
    if names is None or "*" in kwargs:
        return False
    defaults = cls.kwargs.get("defaults")
    given = dict(zip(names, args, strict=False)) | {k: v for k, v in kwargs.items() if k in names}
    if isinstance(defaults, Sequence) and defaults.rest is None:
        for name, value in zip(reversed(names), reversed(defaults.items), strict=False):
            given.setdefault(name, value)
    made.attrs |= {name: given.get(name, Unknown(name)) for name in names}
    itemise(m, made)
    return True


def field_names(m: Machine, cls: Value, name: str) -> Value | None:
    """`_fields` of a named tuple, `__dataclass_fields__` of a dataclass: the names, in order; None if it has none."""
    if isinstance(cls, Instance):
        found = _names(cls.args[1]) if name == "_fields" and is_class(cls) and len(cls.args) > 1 else None
        return m.sequence("tuple", [Const(n) for n in found]) if found is not None else None
    if not isinstance(cls, ClassValue):
        return None
    m.names.load(m, cls)
    if not (cls.dataclass if name == "__dataclass_fields__" else "typing.NamedTuple" in cls.external_bases):
        return None
    names = [
        s.target.id
        for ancestor in reversed(cls.mro)
        for s in ancestor.node.body
        if isinstance(s, tree.AnnAssign) and isinstance(s.target, tree.Name)
    ]
    return m.sequence("tuple", [Const(n) for n in dict.fromkeys(names)])


def itemise(m: Machine, made: Instance) -> None:
    """The fields as items, for indexing, iterating and unpacking."""
    made.attrs["$items"] = m.sequence("tuple", [v for k, v in made.attrs.items() if not k.startswith("$")])


def method(m: Machine, value: Instance, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value | None:
    """`_replace`, `_asdict` and `_make`; None if it is none of these."""
    if is_class(value):
        return make(m, value, tuple(iteration.elements(m, args[0])), {}, span) if name == "_make" and args else None
    if "$items" not in value.attrs or name not in ("_replace", "_asdict"):
        return None
    fields = {k: v for k, v in value.attrs.items() if not k.startswith("$")}
    if name == "_asdict":
        return m.mapping({k: v for k, v in fields.items()})
    made = m.instance_of(value.cls, span, complete=value.complete)
    made.attrs = {**fields, **kwargs}
    itemise(m, made)
    return made


def _names(value: Value) -> list[str] | None:
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value.replace(",", " ").split()
    if isinstance(value, Sequence) and value.rest is None:
        names = [i.value for i in value.items if isinstance(i, Const) and isinstance(i.value, str)]
        return names if len(names) == len(value.items) else None
    return None
