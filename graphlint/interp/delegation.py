"""Attributes that an object lacks: `__getattr__` of its class answers for another object, or for a table.

What cannot be answered is as unknown as before; a class that asks itself in a circle is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import tables
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Mapping, Place, Unknown, Value, join, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: `class Options(dict): __getattr__ = dict.get`.
_ENTRY = frozenset({"dict.__getitem__", "dict.get"})


def asked(m: Machine, owner: Instance, name: str, span: Span) -> Value | None:
    """What `__getattr__` of the object's class answers for `name`; None if it has none, or says nothing."""
    cls = owner.cls
    if not isinstance(cls, ClassValue) or not cls.module.in_project or name.startswith("__") or not owner.complete:
        return None
    found = m.names.class_attribute(m, cls, "__getattr__")
    if found is None:
        return None
    if isinstance(found[0], External):
        return _entry(m, owner, name) if found[0].name.removeprefix("builtins.") in _ENTRY else None
    if not isinstance(found[0], FunctionValue) or (owner.id, name) in m.asking:
        return None
    m.asking.add((owner.id, name))
    try:
        result = m.call(BoundMethod(receiver=owner, function=found[0]), (Const(name),), {}, span, "__getattr__")
    finally:
        m.asking.discard((owner.id, name))
    known = [o for o in options(result) if not isinstance(o, Unknown)]
    return join(*known) if known else None


def _entry(m: Machine, owner: Instance, name: str) -> Value | None:
    inner = owner.attrs.get("$items")
    if not isinstance(inner, Mapping) or not tables.kind_of(owner) or name not in inner.items:
        return None
    return m.at_place(inner.items[name], Place(inner.id, name, "item"))
