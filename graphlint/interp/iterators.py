"""`iter` and `next`: an iterator is a state of Python's own, which each `next` moves on.

Glossary:
    iterator  a Sequence of kind "generator" that holds what is left, or, over something that is not known item by
              item, an Instance of `ITERATOR` with its source under `$items`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Op
from graphlint.interp import attributes, iteration
from graphlint.interp.objects import ClassValue
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    External,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Union,
    Unknown,
    Value,
    join,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
ITERATOR = "builtins.iterator"
#: The hint of what an iterator gave of which nothing else is known.
TAKEN = "next()"


def iter_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """`iter(x)`: over what is known item by item, a sequence of its own; an iterator is its own iterator."""
    value = args[0] if len(args) == 1 else Unknown()
    match value:
        case Sequence(kind="generator") | Instance(cls=External(name="builtins.iterator")) | Union():
            return value
        case Sequence():
            return iteration.listed(m, "generator", value)
        case Mapping():
            rest = None if value.rest is None else value.keys or Host("loop", kind="")
            return m.sequence("generator", iteration.elements(m, value), rest)
        case Instance(cls=ClassValue()):
            method = attributes.find_method(m, value, "__iter__")
            if method is not None:
                return m.call(method, (), {}, span, "__iter__")
    made = m.instance_of(External(ITERATOR), span)
    made.attrs["$items"] = value
    return made


def next_(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """`next(it)`: the first of what is left where that is known, else any of it."""
    source = args[0] if args else Unknown()
    result = _taken(m, source, args[1:], span, text)
    if isinstance(source, (Sequence, Instance)):
        result = m.at_place(result, Place(source.id, "next", "item"))
    m.emit(Op, span, name="builtins.next", args=args, result=result, text="next")
    return result


def _taken(m: Machine, source: Value, default: Args, span: Span, text: str) -> Value:
    if isinstance(source, Sequence) and source.kind == "generator" and source.rest is None:
        if not source.items:
            return join(*default) if default else Unknown(TAKEN)
        if not m.conditions and not m.in_inexact_loop():
            return source.items.pop(0)
    if isinstance(source, Instance) and isinstance(source.cls, ClassValue):
        method = attributes.find_method(m, source, "__next__")
        if method is not None:
            return m.call(method, (), {}, span, "__next__")
    items, _ = iteration.iterate(m, source, tree.Name(span, text))
    if any(not isinstance(i, Unknown) for i in items):
        return join(*items)
    hint = next((i.hint for i in items if isinstance(i, Unknown)), "") if m.region is None else TAKEN
    return join(Unknown(hint), *default)
