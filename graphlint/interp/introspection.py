"""Builtins that ask an object what it is and what it has: getattr, hasattr, isinstance, type and their like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.interp import (
    attribute_tables,
    attributes,
)
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue, Partial
from graphlint.source import Span
from graphlint.value import (
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    options,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine
Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def getattr_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) >= 2 and isinstance(args[1], Const) and isinstance(args[1].value, str):
        name = args[1].value
        if len(args) > 2 and isinstance(args[0], Instance) and _has(m, args[0], name) is False:
            return args[2]
        found = join(*(attributes.attribute_of(m, o, name, span) for o in options(args[0])))
        return join(found, args[2]) if len(args) > 2 and isinstance(found, Unknown) else found
    return Unknown()


def _has(m: Machine, value: Value, name: str) -> bool | None:
    if isinstance(value, Instance):
        if name in value.attrs:
            return not isinstance(value.attrs[name], Unknown) or None
        if isinstance(value.cls, ClassValue):
            if m.names.class_attribute(m, value.cls, name) is not None:
                return True
            return False if value.complete and not value.cls.external_bases else (None if not value.complete else False)
    if isinstance(value, Tensor):
        return name in (m.tensor_attrs.get(value.storage.id) or ()) or None
    return None


def hasattr_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) == 2 and isinstance(args[1], Const):
        known = _has(m, args[0], str(args[1].value))
        if known is not None:
            return Const(known)
    return Host(kind="bool")


def setattr_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) == 3 and isinstance(args[1], Const):
        attributes.set_attribute(m, args[0], str(args[1].value), args[2], span, "=", text)
    elif len(args) == 3 and isinstance(args[0], Instance):
        from graphlint.fact import Bind

        m.emit(Bind, span, place=Place(args[0].id, "*", "attribute"), value=args[2], old=None, owner=args[0], text=text)
    return Const(None)


def isinstance_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) != 2:
        return Host(kind="bool")
    answers = {attributes.is_instance(m, o, args[1]) for o in options(args[0])}
    known = answers.pop() if len(answers) == 1 else None
    return Host(kind="bool") if known is None else Const(known)


def callable_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    value = args[0] if args else Unknown()
    if isinstance(value, (FunctionValue, BoundMethod, ClassValue, Partial)):
        return Const(True)
    return Const(False) if isinstance(value, (Const, Tensor, Sequence, Mapping)) else Host(kind="bool")


def type_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) == 1 and isinstance(args[0], Instance):
        return args[0].cls
    return Unknown("type")


def vars_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if args and isinstance(args[0], Instance):
        return attribute_tables.seen(m, args[0]) or Unknown()
    return Unknown()
