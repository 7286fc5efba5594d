"""Rings: a container whose items change places, `ring.rotate(1)`, `ring.append(ring.popleft())`, `pair.reverse()`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind
from graphlint.source import Span
from graphlint.value import Const, Place, Sequence, Value, join, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: What puts an item at an end of a container.
ENDS = {"append": "back", "appendleft": "front"}


def turn(m: Machine, ring: Sequence, name: str, by: Value | None, span: Span, text: str) -> None:
    if isinstance(by, Const) and by.value == 0:
        return
    step = by.value if isinstance(by, Const) else 1 if by is None else None
    items = ring.items
    if name == "reverse":
        items.reverse()
    elif items:
        if isinstance(step, int) and ring.length is not None and not m.conditions and not m.in_inexact_loop(ring.id):
            cut = -step % len(items)
            items[:] = [*items[cut:], *items[:cut]]
        else:  # any of them may stand anywhere
            items[:] = [join(*items, *([ring.rest] if ring.rest is not None else []))] * len(items)
    _note(m, ring, span, text)


def took(m: Machine, ring: Sequence, name: str, at: Value | None, item: Value) -> None:
    first = name == "popleft" or (name == "pop" and isinstance(at, Const) and at.value == 0)
    last = name == "pop" and (at is None or (isinstance(at, Const) and at.value == -1))
    if first or last:
        m.taken[ring.id] = ("front" if first else "back", item)
    else:
        m.taken.pop(ring.id, None)


def put(m: Machine, ring: Sequence, name: str, item: Value, span: Span, text: str) -> None:
    """What was taken from one end is put back at the other."""
    end, taken = m.taken.pop(ring.id, ("", None))
    if taken is not None and end != ENDS[name] and len(options(join(item, taken))) == len(options(taken)):
        _note(m, ring, span, text)


def _note(m: Machine, ring: Sequence, span: Span, text: str) -> None:
    m.emit(Bind, span, place=Place(ring.id, "*", "item"), value=None, old=None, owner=ring, how="turn", text=text)
