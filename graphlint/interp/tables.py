"""Objects of classes that derive from a container (`class Pages(dict)`, `class Queue(list)`), entries made on demand.

What such an object holds lies under `$items`, as that of a plain container would; methods of the class come first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind
from graphlint.interp import iteration, subscripts
from graphlint.interp.objects import ClassValue
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Mapping, Place, Sequence, Unknown, Value, tensors

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_KINDS = {
    "builtins.dict": "dict", "collections.OrderedDict": "dict", "collections.UserDict": "dict",
    "collections.Counter": "dict", "collections.defaultdict": "defaultdict", "builtins.list": "list",
    "collections.UserList": "list", "collections.deque": "deque", "builtins.set": "set",
}  # fmt: skip


def kind_of(value: Value) -> str:
    """The container that the object's class derives from, or ""."""
    bases = value.cls.external_bases if isinstance(value, Instance) and isinstance(value.cls, ClassValue) else []
    return next((_KINDS[b] for b in bases if b in _KINDS), "")


def counts_as_held(m: Machine, value: Instance, *methods: str) -> bool:
    """True if the object answers as the container in it does: its class says nothing else of truth, or by `methods`."""
    if "$items" not in value.attrs or not kind_of(value) or not isinstance(value.cls, ClassValue):
        return False
    cls = value.cls
    return all(m.names.class_attribute(m, cls, n) is None for n in methods or ("__bool__", "__len__"))


def begin(m: Machine, instance: Instance) -> None:
    """An object is made: its container is there, and empty, before its `__init__` runs.

    A record that is a dictionary too, whose attributes and entries are the same, is left alone.
    """
    kind, cls = kind_of(instance), instance.cls
    if not kind or not isinstance(cls, ClassValue) or cls.dataclass:
        return
    if m.names.class_attribute(m, cls, "__setattr__") is not None:
        return
    asked = m.names.class_attribute(m, cls, "__getattr__")
    if asked is not None and not isinstance(asked[0], External):
        return
    made: Value = m.sequence(kind, [])
    if kind in ("dict", "defaultdict"):
        made = Mapping(kind=kind, born=m.region)
    instance.attrs["$items"] = made
    if any(b.startswith("collections.User") for b in cls.external_bases):
        instance.attrs["data"] = made


def unbound(value: Value | None, name: str) -> bool:
    """True for a container's method that is called on its class: `dict.__setitem__(self, key, value)`."""
    return (
        name.rpartition(".")[0] in _KINDS
        and isinstance(value, Instance)
        and "$items" in value.attrs
        and bool(kind_of(value))
    )


def initialise(m: Machine, instance: Instance, args: Args, kwargs: Kwargs) -> None:
    """The container's own `__init__`: `super().__init__(pairs)`."""
    inner = instance.attrs.get("$items")
    if isinstance(inner, Sequence) and args:
        known = isinstance(args[0], Sequence) and args[0].rest is None
        inner.items += iteration.elements(m, args[0])
        inner.rest = None if known else inner.items[-1] if inner.items else Unknown()
    if not isinstance(inner, Mapping):
        return
    if inner.kind == "defaultdict" and args:
        inner.keys, args = args[0], args[1:]
    if args and isinstance(args[0], Mapping):
        inner.items |= args[0].items
        inner.rest = args[0].rest
    elif args:
        inner.rest = Unknown()
    inner.items |= {k: v for k, v in kwargs.items() if k != "*"}


def item(m: Machine, base: Instance, index: Value, node: tree.Subscript) -> Value:
    """`base[index]` where the class has no `__getitem__` of its own."""
    from graphlint.interp.attributes import find_method

    inner = base.attrs["$items"]
    if isinstance(inner, Mapping) and inner.rest is None and lacks(inner, index):
        missing = find_method(m, base, "__missing__")
        if missing is not None:
            return m.call(missing, (index,), {}, node.span, "__missing__")
    return subscripts.get_item(m, inner, index, node)


def lacks(table: Mapping, index: Value) -> bool:
    """True if a table whose entries are all known has none under this key."""
    key = subscripts.as_key(index)
    known = isinstance(key, Const) and key.value.__hash__ is not None
    return key.value not in table.items if isinstance(key, Const) and known else not table.items


def method(m: Machine, owner: Instance, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """A method that the class inherits from the container."""
    from graphlint.interp.externals import call_method

    inner = owner.attrs["$items"]
    node = tree.Subscript(span, tree.Name(span, text.rpartition(".")[0] or text), tree.Name(span, "key"))
    if name == "__init__":
        initialise(m, owner, args, kwargs)
        return Const(None)
    if name == "__getitem__" and args:
        return subscripts.get_item(m, inner, args[0], node)
    if name == "__setitem__" and len(args) > 1:
        subscripts.set_item(m, inner, args[0], args[1], node, span)
        return Const(None)
    if name == "__delitem__" and args:
        subscripts.delete_item(m, inner, args[0], node)
        return Const(None)
    return call_method(m, inner, name, args, kwargs, span, text)


def made_on_demand(m: Machine, table: Mapping, key: object, value: Value, span: Span, text: str) -> None:
    """An entry that was missing and that looking for it has made: told of memory only."""
    if tensors(value, 2):
        place = Place(table.id, str(key), "item")
        m.emit(Bind, span, place=place, value=value, old=None, owner=table, how="default", text=text)
