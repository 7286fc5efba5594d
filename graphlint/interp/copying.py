"""`copy.copy` and `copy.deepcopy`: what a copy shares with its original, and what it has for itself.

A deep copy has everything for itself, however deep it lies: what is done to it is not done to what a graph reads. What
the original holds twice, or in a circle, so does the copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.interp import attributes
from graphlint.interp.objects import BoundMethod, Partial
from graphlint.source import Span
from graphlint.value import Instance, Mapping, Sequence, Tensor, Union, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: What follows deeper in is shared: nothing is known of a chain of that length.
_DEEPEST = 80
#: Copies by what they are copies of: values by their identity, memory by its number.
_Memo = dict[tuple[str, int], Value]


def shallow(m: Machine, value: Value, span: Span) -> Value:
    """`copy.copy(value)`: another object that holds the same ones."""
    if isinstance(value, Instance):
        if (made := _own(m, value, "__copy__", (), span)) is not None:
            return made
        copied = _twin(m, value, span)
        copied.attrs = dict(value.attrs)
        if isinstance(items := value.attrs.get("$items"), (Sequence, Mapping)):
            copied.attrs["$items"] = shallow(m, items, span)
        return copied
    if isinstance(value, Sequence) and value.kind != "tuple":
        return m.sequence(value.kind, list(value.items), value.rest, value.sized)
    if isinstance(value, Mapping):
        return _mapping(m, value, dict(value.items), value.rest)
    return value


def deep(m: Machine, value: Value, span: Span, memo: _Memo | None = None, depth: int = 0) -> Value:
    """`copy.deepcopy(value)`."""
    memo = {} if memo is None else memo
    m.tick()
    if isinstance(value, Tensor):
        return _tensor(m, value, span, memo)
    key = ("value", id(value))
    if key in memo or depth > _DEEPEST:
        return memo.get(key, value)

    def inner(held: Value) -> Value:
        return deep(m, held, span, memo, depth + 1)

    match value:
        case Instance() if value.external.startswith("torch.cuda."):
            return value
        case Instance():
            if (made := _own(m, value, "__deepcopy__", (m.mapping(),), span)) is not None:
                memo[key] = made
                return made
            copied = memo[key] = _twin(m, value, span)
            copied.attrs.update({name: inner(held) for name, held in value.attrs.items()})
            if value.external:
                copied.args = tuple(map(inner, value.args))
                copied.kwargs = {name: inner(held) for name, held in value.kwargs.items()}
        case Sequence():
            items = memo[key] = m.sequence(value.kind, [], sized=value.sized)
            items.items += [inner(i) for i in value.items]
            items.rest = inner(value.rest) if value.rest is not None else None
        case Mapping():
            table = memo[key] = _mapping(m, value, {}, None)
            table.items.update({k: inner(v) for k, v in value.items.items()})
            table.rest = inner(value.rest) if value.rest is not None else None
        case Union():
            memo[key] = Union(tuple(inner(o) for o in value.options))
        case BoundMethod():
            memo[key] = BoundMethod(receiver=inner(value.receiver), function=value.function)
        case Partial():
            given = {name: inner(held) for name, held in value.kwargs.items()}
            memo[key] = Partial(function=inner(value.function), args=tuple(map(inner, value.args)), kwargs=given)
        case _:
            return value
    return memo[key]


def _own(m: Machine, value: Instance, name: str, args: tuple[Value, ...], span: Span) -> Value | None:
    """What the object's own method makes; None if its class has none."""
    method = attributes.find_method(m, value, name)
    return None if method is None else m.call(method, args, {}, span, name)


def _twin(m: Machine, value: Instance, span: Span) -> Instance:
    """Another object made as `value` was, still without attributes."""
    made = m.instance_of(value.cls, span)
    made.args, made.kwargs, made.complete = value.args, value.kwargs, value.complete
    if value.id in m.pending:
        m.pending[made.id] = made
    if value.id in m.unfinished:
        m.unfinished[made.id] = m.unfinished[value.id]
    return made


def _mapping(m: Machine, value: Mapping, items: dict[object, Value], rest: Value | None) -> Mapping:
    made = m.mapping(items, rest)
    made.kind, made.keys = value.kind, value.keys
    return made


def _tensor(m: Machine, value: Tensor, span: Span, memo: _Memo) -> Tensor:
    """Views of one memory stay views of one memory."""
    key = ("memory", value.storage.id)
    if key not in memo:
        kind = value.storage.kind if value.storage.kind in ("parameter", "buffer") else "fresh"
        memo[key] = m.tensor(span, kind=kind, pinned=value.storage.pinned)
    made = memo[key]
    assert isinstance(made, Tensor)
    return replace(value, storage=made.storage, grad_graph=False, stream=None, place=None)
