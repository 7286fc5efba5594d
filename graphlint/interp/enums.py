"""Members of enumerations: constants that have a value, a name, and the methods of their class."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp.objects import BoundMethod, ClassValue, ExternalMethod, FunctionValue, Partial
from graphlint.source import Span
from graphlint.value import Const, Host, Instance, Sequence, Value, origins

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

_CODE = (FunctionValue, BoundMethod, Partial, ClassValue)


class Member(str):
    """What a constant holds that is a member; equal to itself alone, as any text is."""

    cls: ClassValue
    name: str
    given: Value


def is_enum(cls: ClassValue) -> bool:
    return any(base.startswith("enum.") for base in cls.external_bases)


def is_member(cls: ClassValue, name: str, value: Value) -> bool:
    """True if the class body binds `name` to what makes a member of it."""
    described = isinstance(value, Instance) and value.external.endswith(("property", "nonmember"))
    return is_enum(cls) and not name.startswith("_") and not isinstance(value, _CODE) and not described


def member(cls: ClassValue, name: str, value: Value) -> Const:
    text = Member(f"<{cls.name}.{name}>")
    text.cls, text.name, text.given = cls, name, value
    return Const(text)


def by_name(m: Machine, cls: ClassValue, index: Value) -> Value | None:
    """`Mode["FAST"]`."""
    if not isinstance(index, Const) or not isinstance(index.value, str):
        return None
    found = m.names.class_attribute(m, cls, index.value)
    return member(found[1], index.value, found[0]) if found and is_member(found[1], index.value, found[0]) else None


def attribute(m: Machine, value: Const, name: str, span: Span) -> Value:
    """`Mode.FAST.value`, `Mode.FAST.name`, or what its class or its `__init__` gives each member."""
    from graphlint.interp.attributes import bind_to

    text = value.value
    assert isinstance(text, Member)
    if name in ("name", "_name_"):
        return Const(text.name, origins(value))
    made = m.names.class_attribute(m, text.cls, "__new__") is not None
    if name in ("value", "_value_") and not made:
        return _seen_from(text.given, value)
    found = m.names.class_attribute(m, text.cls, name)
    if found is not None and not is_member(found[1], name, found[0]):
        return bind_to(m, found[0], value, found[1], span)
    own = _object(m, text, span).attrs.get(name) if not made else None
    return ExternalMethod(receiver=value, name=name) if own is None else _seen_from(own, value)


def _seen_from(found: Value, owner: Const) -> Value:
    """What is read of a member is another if the place is rebound that the member was read from."""
    if isinstance(found, Const):
        return Const(found.value, found.inputs | origins(owner))
    if isinstance(found, Host):
        return Host(found.source, found.kind, found.read_at, found.inputs | origins(owner), found.symbol)
    return found


def _object(m: Machine, text: Member, span: Span) -> Instance:
    """The member as its `__init__` sees it, which gets what is in the tuple."""
    key = (text.cls.id, text.name)
    if key not in m.members:
        with m.quiet():
            made = m.members[key] = m.instance_of(text.cls, span)
            made.attrs.update({"_value_": text.given, "value": text.given, "name": Const(text.name)})
            found = m.names.class_attribute(m, text.cls, "__init__")
            if found is not None and isinstance(found[0], FunctionValue):
                given = text.given
                args = tuple(given.items) if isinstance(given, Sequence) and given.kind == "tuple" else (given,)
                m.call(BoundMethod(receiver=made, function=found[0]), args, {}, span, "__init__")
    return m.members[key]
