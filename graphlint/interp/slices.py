"""Slices of lists as targets: `bufs[:] = [...]`, `bufs[1:3] = a, b`, `del bufs[:2]`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind, Keep
from graphlint.interp import iteration
from graphlint.source import Span
from graphlint.value import Const, Place, Sequence, Unknown, Value, join

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine


def positions(base: Sequence, part: Sequence) -> list[int] | None:
    """The items of `base` that a slice names; None if that is not known."""
    bounds: list[int | None] = []
    for bound in part.items:
        if not isinstance(bound, Const) or not (bound.value is None or isinstance(bound.value, int)):
            return None
        bounds.append(bound.value)
    return None if base.length is None else list(range(len(base.items)))[slice(*bounds)]


def position(base: Sequence, at: int) -> int:
    """A place in a list of known length is counted from its front: `bufs[-1]` and `bufs[1]` may be one."""
    return at + len(base.items) if base.length is not None and -len(base.items) <= at < 0 else at


def store(m: Machine, base: Sequence, part: Sequence, value: Value, span: Span, text: str) -> None:
    """`base[part] = value`: each item that is replaced is a place that gets another value."""
    new = list(value.items) if isinstance(value, Sequence) and value.rest is None and value.kind != "range" else None
    chosen = positions(base, part)
    if chosen is None or new is None:
        held = [*base.items, *([base.rest] if base.rest is not None else [])]
        given = iteration.elements(m, value) or [Unknown()]
        if chosen is not None and len(chosen) == len(base.items):
            base.items.clear()
            held = []
        base.rest = join(*([base.rest] if base.rest is not None else []), *given)
        _bind(m, base, None, base.rest, join(*held) if held else None, span, text)
        return
    old = [base.items[at] for at in chosen]
    if len(new) == len(chosen):
        for at, item in zip(chosen, new, strict=True):
            base.items[at] = item
    else:
        start = chosen[0] if chosen else min(_start(part), len(base.items))
        base.items[start : start + len(chosen)] = new
        chosen = list(range(start, start + max(len(new), len(chosen))))
    for index, at in enumerate(chosen):
        before = old[index] if index < len(old) else None
        if index < len(new):
            _bind(m, base, at, new[index], before, span, text)
            m.emit(Keep, span, container=base, value=new[index], how="setitem", text=text)
        else:
            _bind(m, base, at, None, before, span, text, "del")


def delete(m: Machine, base: Sequence, part: Sequence, span: Span, text: str) -> None:
    """`del base[part]`."""
    chosen = positions(base, part)
    if chosen is None:
        return
    for at in chosen:
        _bind(m, base, at, None, base.items[at], span, text, "del")
    base.items[:] = [item for at, item in enumerate(base.items) if at not in set(chosen)]


def _bind(
    m: Machine, base: Sequence, at: int | None, value: Value | None, old: Value | None, span: Span, text: str,
    how: str = "=",
) -> None:  # fmt: skip
    place = Place(base.id, "*" if at is None else str(at), "item")
    m.emit(Bind, span, place=place, value=value, old=old, owner=base, how=how, text=text)


def _start(part: Sequence) -> int:
    first = part.items[0]
    return first.value if isinstance(first, Const) and isinstance(first.value, int) and first.value >= 0 else 0
