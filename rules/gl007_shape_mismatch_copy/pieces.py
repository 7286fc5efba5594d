"""Which part of its buffer a write covers.

Glossary:
    piece  the rows, or columns, from `low` to `high` of one dimension of a buffer.
    view   the slice, or `narrow`, that a write went through.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from graphlint.fact import Branch, Index, Op, Write
from graphlint.value import Const, Host, Sequence, Tensor, Value, origins

#: The end of a slice as the source spells it: `x[:n]`, `x[:, :n]`.
_END = re.compile(r":\s*([^\s,:\[\]][^,:\[\]]*)[,\]]")


@dataclass(frozen=True)
class Piece:
    """The part of a buffer that is written: `dim` is cut at `low` and `high` (None for an open end)."""

    dim: int
    low: Value | None
    high: Value | None
    others_full: bool


def whole_of(write: Write, views: list[Index | Op]) -> Tensor:
    """The tensor that a written view is a slice of."""
    assert isinstance(write.target, Tensor)
    if write.how == "setitem":
        return write.target
    view = _view_of(write, views)
    base = view.receiver if isinstance(view, Op) else view.base if view is not None else None
    return base if isinstance(base, Tensor) else write.target


def _view_of(write: Write, views: list[Index | Op]) -> Index | Op | None:
    target = write.target
    assert isinstance(target, Tensor)
    for view in reversed([v for v in views if v.order < write.order]):
        if (
            isinstance(view.result, Tensor)
            and view.result.storage is target.storage
            and view.result.view == target.view
        ):
            return view
    return None


def piece(write: Write, views: list[Index | Op]) -> Piece | None:
    """Which part of its buffer a write covers; None if it cannot be told, dim -1 for the whole."""
    assert isinstance(write.target, Tensor)
    if write.how == "setitem":
        index = write.index
    elif write.target.view is None:
        return Piece(-1, None, None, True)
    else:
        view = _view_of(write, views)
        if isinstance(view, Op):
            return narrowed(view)
        index = view.index if view is not None else None
    if write.how not in ("copy_", "setitem", "zero_", "fill_", "out=", "normal_", "uniform_", "+=") or index is None:
        return None
    parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]
    found: Piece | None = None
    full = True
    for dim, part in enumerate(parts):
        if isinstance(part, Sequence) and part.kind == "slice":
            low, high = (None if isinstance(p, Const) and p.value is None else p for p in part.items[:2])
            if low is None and high is None:
                continue
            if isinstance(low, Const) and low.value == 0:
                low = None
            if found is not None:
                return None
            found = Piece(dim, low, high, True)
        elif isinstance(part, Const) and part.value is Ellipsis:
            continue
        else:
            full = False
    if found is None:
        return Piece(-1, None, None, full) if full else None
    return Piece(found.dim, found.low, found.high, full)


def narrowed(view: Op) -> Piece | None:
    """The piece that `x.narrow(dim, start, length)` is, if it starts at the front."""
    dim, start, length = (view.argument(i, n) for i, n in enumerate(("dim", "start", "length")))
    if not (isinstance(dim, Const) and isinstance(dim.value, int) and isinstance(start, Const) and start.value == 0):
        return None
    return Piece(dim.value, None, length, True)


def same(left: Value | None, right: Value | None) -> bool:
    if isinstance(left, Const) and isinstance(right, Const):
        return bool(left.value == right.value)
    if isinstance(left, Host) and isinstance(right, Host) and left.symbol and left.symbol == right.symbol:
        return True
    return left is not None and right is not None and bool(origins(left) & origins(right))


def fills(part: Piece, whole: Tensor) -> bool:
    """True if the head is known to be all of the buffer."""
    if whole.shape is None or part.dim >= len(whole.shape):
        return False
    size = whole.shape[part.dim]
    if isinstance(part.high, Const) and isinstance(part.high.value, int) and isinstance(size, int):
        return part.high.value >= size or part.high.value < 0
    return isinstance(part.high, Host) and part.high.symbol is not None and part.high.symbol == size


def may_fill(write: Write, part: Piece, whole: Tensor, asked: list[Branch]) -> bool:
    """True if nothing is known of the buffer's size, and the call around the write asked whether there is a tail:
    `if n < bucket:`, which was answered with no."""
    if whole.shape is not None and (part.dim >= len(whole.shape) or isinstance(whole.shape[part.dim], int)):
        return False
    end = _END.search(write.text)
    words = set(re.findall(r"\w+", end.group(1))) if end is not None else set()
    return any(
        not b.taken
        and b.chain == write.chain
        and (sides := re.split(r"<=?|>=?|!=", b.text))[1:]
        and any(words == set(re.findall(r"\w+", side)) for side in sides)
        for b in asked
    )
