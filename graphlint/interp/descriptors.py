"""Descriptors that a project writes: objects held by a class whose `__get__` and `__set__` stand behind an attribute.

To assign such an attribute is to call a method: what it stands for is bound anew only if that method does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue
from graphlint.source import Span
from graphlint.value import Const, Instance, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine


def _method(m: Machine, held: Value, name: str) -> BoundMethod | None:
    if not isinstance(held, Instance) or not isinstance(held.cls, ClassValue):
        return None
    found = m.names.class_attribute(m, held.cls, name)
    if found is None or not isinstance(found[0], FunctionValue):
        return None
    return BoundMethod(receiver=held, function=found[0])


def _held(m: Machine, owner: Instance, name: str) -> Value | None:
    found = m.names.class_attribute(m, owner.cls, name) if isinstance(owner.cls, ClassValue) else None
    return found[0] if found is not None and isinstance(found[0], Instance) else None


def read(m: Machine, owner: Instance, name: str, span: Span) -> Value | None:
    """`owner.name`, if a descriptor of its class answers; one with `__set__` does so before the object itself."""
    held = _held(m, owner, name)
    if held is None or (name in owner.attrs and _method(m, held, "__set__") is None):
        return None
    getter = _method(m, held, "__get__")
    if getter is None:
        return None
    assert isinstance(owner.cls, ClassValue)
    return m.call(getter, (owner, owner.cls), {}, span, f"{name}.__get__")


def read_from_class(m: Machine, cls: ClassValue, held: Value, span: Span) -> Value | None:
    """`Class.name`: the descriptor is asked with no object."""
    getter = _method(m, held, "__get__")
    return m.call(getter, (Const(None), cls), {}, span, "__get__") if getter is not None else None


def written(m: Machine, owner: Instance, name: str, value: Value, span: Span, how: str, text: str) -> bool:
    """True if `owner.name = value` is a call: of `__set__`, of `__delete__` where it is deleted, of a setter."""
    if not isinstance(owner.cls, ClassValue):
        return False
    found = m.names.class_attribute(m, owner.cls, name)
    if found is None:
        return False
    deletes = how == "del"
    if (method := _method(m, found[0], "__delete__" if deletes else "__set__")) is not None:
        m.call(method, (owner,) if deletes else (owner, value), {}, span, text)
        return True
    if not isinstance(found[0], FunctionValue) or found[0].binding != "property" or found[0].memo:
        return False
    own = m.names.class_attribute(m, owner.cls, f"{name}.setter")
    if own is not None and isinstance(own[0], FunctionValue):
        m.call(BoundMethod(receiver=owner, function=own[0]), (value,), {}, span, text)
    return True


def named(m: Machine, cls: ClassValue) -> None:
    """Tells each object that the body of a class has made under which name the class holds it."""
    for name, held in list(cls.attrs.items()):
        if (method := _method(m, held, "__set_name__")) is not None:
            m.call(method, (cls, Const(name)), {}, Span(0, 0, 0, 0), "__set_name__")
