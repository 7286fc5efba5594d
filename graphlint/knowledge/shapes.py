"""Shapes without running code: a shape is a tuple of dims, or None where even the rank is unknown.

A dim is an int, a symbol (a text; equal symbols are equal sizes) or None for an unknown size. Every function is pure
and answers None, or a None dim, rather than guess.

    broadcast((4, 1), (3,))         == (4, 3)
    view((4, "n"), (-1, 2))         == (None, 2)
    matmul(("b", 8), (8, 16))       == ("b", 16)
    index((8, 4), Const(0))         == (4,)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from graphlint.value import Const, Dim, Host, Mapping, Tensor, Value
from graphlint.value import Sequence as SequenceValue

Shape: TypeAlias = "tuple[Dim, ...] | None"


def dim_of(value: Value | None) -> Dim:
    """The size that a value stands for: a constant int, a symbol, or None."""
    if isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool):
        return value.value
    if isinstance(value, Host):
        return value.symbol
    return None


def int_of(value: Value | None) -> int | None:
    """A constant int, or None."""
    dim = dim_of(value)
    return dim if isinstance(dim, int) else None


def sizes_of(args: Sequence[Value]) -> Shape:
    """The shape that size arguments give: `f(2, n)`, `f((2, n))`, `f([2, n])` or `f(x.shape)`."""
    if len(args) == 1 and isinstance(args[0], SequenceValue):
        sequence = args[0]
        if sequence.rest is not None or sequence.kind not in ("list", "tuple"):
            return None
        return tuple(dim_of(item) for item in sequence.items)
    if any(not isinstance(a, (Const, Host, Tensor)) for a in args):
        return None
    return tuple(dim_of(a) for a in args)


def known(shape: Shape) -> bool:
    """True if every size is a known int."""
    return shape is not None and all(isinstance(d, int) for d in shape)


def numel(shape: Shape) -> int | None:
    """The number of elements, if every size is known."""
    if shape is None:
        return None
    total = 1
    for dim in shape:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


def same_dim(a: Dim, b: Dim) -> bool | None:
    """True if equal, False if known to differ, None if not known."""
    if a is None or b is None:
        return None
    if a == b:
        return True
    return False if isinstance(a, int) and isinstance(b, int) else None


def broadcast(*shapes: Shape) -> Shape:
    """The shape of an elementwise result; a dim that cannot be settled is None. Impossible pairs give None dims."""
    if any(s is None for s in shapes) or not shapes:
        return None
    rank = max(len(s) for s in shapes if s is not None)
    result: list[Dim] = []
    for position in range(-rank, 0):
        dim: Dim = 1
        for shape in shapes:
            assert shape is not None
            if len(shape) < -position:
                continue
            other = shape[position]
            if other == 1 or other == dim:
                continue
            dim = other if dim == 1 else (dim if isinstance(dim, int) and dim > 1 and other is None else None)
        result.append(dim)
    return tuple(result)


def broadcasts_to(source: Shape, target: Shape) -> bool | None:
    """Whether `target.copy_(source)` is accepted: True, False (torch raises), or None if not known."""
    if source is None or target is None:
        return None
    if len(source) > len(target):
        # leading ones are dropped by copy_; anything else is refused
        extra, source = source[: len(source) - len(target)], source[len(source) - len(target) :]
        if any(isinstance(d, int) and d != 1 for d in extra):
            return False
        if any(d != 1 for d in extra):
            return None
    answer: bool | None = True
    for a, b in zip(reversed(source), reversed(target), strict=False):
        if a == 1 or same_dim(a, b):
            continue
        if same_dim(a, b) is False:
            return False
        answer = None
    return answer


def spreads(source: Shape, target: Shape) -> bool | None:
    """Whether an accepted copy repeats `source` along a dim of `target`, silently: True, False or None."""
    if source is None or target is None:
        return None
    answer: bool | None = False
    for position in range(1, len(target) + 1):
        here = target[-position]
        there: Dim = source[-position] if position <= len(source) else 1
        if here == 1 or (there is not None and there == here):
            continue
        if there == 1 and isinstance(here, int):
            return True
        answer = None
    return answer


def normal(dim: int, rank: int) -> int | None:
    """A dim counted from the front, or None if out of range."""
    dim = dim + rank if dim < 0 else dim
    return dim if 0 <= dim < rank else None


def reduce(shape: Shape, dims: Iterable[int] | None, keepdim: bool = False) -> Shape:
    """A reduction over `dims` (None: all of them, which gives `()` unless keepdim)."""
    if shape is None:
        return () if dims is None and not keepdim else None
    rank = len(shape)
    gone = set(range(rank)) if dims is None else {normal(d, rank) for d in dims}
    if None in gone:
        return None
    if keepdim:
        return tuple(1 if i in gone else d for i, d in enumerate(shape))
    return tuple(d for i, d in enumerate(shape) if i not in gone)


def matmul(a: Shape, b: Shape) -> Shape:
    """`a @ b` with torch's rules for vectors and batches."""
    if a is None or b is None or not a or not b:
        return None
    if len(a) == 1 and len(b) == 1:
        return ()
    if len(a) == 1:
        return (*b[:-2], b[-1])
    if len(b) == 1:
        return a[:-1]
    batch = broadcast(a[:-2], b[:-2])
    return None if batch is None else (*batch, a[-2], b[-1])


def linear(x: Shape, out_features: Dim) -> Shape:
    """The result of a linear layer: the last dim is replaced."""
    return None if not x else (*x[:-1], out_features)


def view(shape: Shape, sizes: Shape) -> Shape:
    """`view`/`reshape` to `sizes`, one of which may be -1."""
    if sizes is None:
        return None
    if -1 not in sizes:
        return sizes
    rest = [d for d in sizes if d != -1]
    total = numel(shape)
    fill: Dim = None
    part = numel(tuple(rest))
    if total is not None and part:
        fill = total // part
    elif shape is not None:
        left = list(shape)
        for dim in rest:
            if dim is not None and dim in left:
                left.remove(dim)
            else:
                left = [None]
                break
        left = [d for d in left if d != 1]
        fill = left[0] if len(left) == 1 else numel(tuple(left))
    return tuple(fill if d == -1 else d for d in sizes)


def permute(shape: Shape, dims: Sequence[int | None]) -> Shape:
    if shape is None or len(dims) != len(shape) or any(d is None for d in dims):
        return None
    places = [normal(d, len(shape)) for d in dims if d is not None]
    return None if None in places else tuple(shape[p] for p in places if p is not None)


def transpose(shape: Shape, a: int | None, b: int | None) -> Shape:
    if shape is None or a is None or b is None:
        return None
    i, j = normal(a, len(shape)), normal(b, len(shape))
    if i is None or j is None:
        return None
    out = list(shape)
    out[i], out[j] = out[j], out[i]
    return tuple(out)


def unsqueeze(shape: Shape, dim: int | None) -> Shape:
    if shape is None or dim is None:
        return None
    place = normal(dim, len(shape) + 1)
    return None if place is None else (*shape[:place], 1, *shape[place:])


def squeeze(shape: Shape, dims: Sequence[int] | None = None) -> Shape:
    """Without `dims` every 1 goes; a dim that may be 1 makes the rank unknown."""
    if shape is None:
        return None
    if dims is None:
        return tuple(d for d in shape if d != 1) if all(isinstance(d, int) for d in shape) else None
    places = {normal(d, len(shape)) for d in dims}
    if any(p is not None and not isinstance(shape[p], int) for p in places):
        return None
    return tuple(d for i, d in enumerate(shape) if not (i in places and d == 1))


def flatten(shape: Shape, start: int = 0, end: int = -1) -> Shape:
    if shape is None:
        return None
    if not shape:
        return (1,)
    i, j = normal(start, len(shape)), normal(end, len(shape))
    if i is None or j is None or j < i:
        return None
    middle = shape[i : j + 1]
    dim: Dim = middle[0] if len(middle) == 1 else numel(middle)
    return (*shape[:i], dim, *shape[j + 1 :])


def expand(shape: Shape, sizes: Shape) -> Shape:
    if sizes is None:
        return None
    if shape is None:
        return tuple(None if d == -1 else d for d in sizes)
    offset = len(sizes) - len(shape)
    return tuple((shape[i - offset] if i >= offset else None) if d == -1 else d for i, d in enumerate(sizes))


def repeat(shape: Shape, times: Shape) -> Shape:
    """`x.repeat(*times)`: leading times without a dim of their own make new ones."""
    if times is None:
        return None
    if shape is None:
        return (None,) * len(times)
    padded = (1,) * (len(times) - len(shape)) + shape
    return tuple(_times(d, n) for d, n in zip(padded, times, strict=True)) if len(padded) == len(times) else None


def _times(dim: Dim, count: Dim) -> Dim:
    if isinstance(dim, int) and isinstance(count, int):
        return dim * count
    return count if dim == 1 else dim if count == 1 else None


def either(first: Shape, second: Shape) -> Shape:
    """The shape of one of two tensors: what both agree in."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def cat(shapes: Sequence[Shape], dim: int | None) -> Shape:
    """Concatenation along `dim`; None for an empty list or unequal ranks."""
    if not shapes or dim is None or any(s is None for s in shapes):
        return None
    first = shapes[0]
    assert first is not None
    place = normal(dim, len(first))
    if place is None:
        return None
    total: Dim = 0
    for shape in shapes:
        assert shape is not None
        if len(shape) != len(first):
            return None
        size = shape[place]
        total = total + size if isinstance(total, int) and isinstance(size, int) else None
        if total is None:
            break
    return tuple(total if i == place else d for i, d in enumerate(first))


def stack(shapes: Sequence[Shape], count: Dim, dim: int | None) -> Shape:
    """A new dim of size `count` at `dim`."""
    if not shapes or dim is None or shapes[0] is None:
        return None
    place = normal(dim, len(shapes[0]) + 1)
    return None if place is None else (*shapes[0][:place], count, *shapes[0][place:])


def is_slice(value: Value) -> bool:
    return isinstance(value, SequenceValue) and value.kind == "slice"


def slice_length(size: Dim, bounds: Value) -> Dim:
    """How many of `size` a slice takes. A slice is a Sequence of kind "slice" with the items lower, upper, step."""
    assert isinstance(bounds, SequenceValue)
    none = Const(None)
    lower, upper, step = [*bounds.items, none, none, none][:3]
    start = 0 if _is_none(lower) else dim_of(lower)
    stride = 1 if _is_none(step) else dim_of(step)
    if _is_none(upper):
        if start == 0 and stride == 1:
            return size
        stop: Dim = size
    else:
        stop = dim_of(upper)
    if start == 0 and stride == 1 and isinstance(stop, str):
        return stop
    if isinstance(start, int) and isinstance(stop, int) and isinstance(stride, int) and stride > 0:
        if isinstance(size, int):
            return len(range(size)[start:stop:stride])
        if 0 <= start <= stop:
            return len(range(start, stop, stride))
    return None


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None


def index(shape: Shape, key: Value) -> Shape:
    """The shape of `x[key]`: ints, None, Ellipsis, slices, tensors, lists, and tuples of them.

    Boolean masks give one unknown dim in place of the mask's dims.
    """
    if shape is None:
        return None
    keys = list(key.items) if isinstance(key, SequenceValue) and key.kind == "tuple" else [key]
    if isinstance(key, SequenceValue) and key.kind == "tuple" and key.rest is not None:
        return None
    used = sum(_consumes(k) for k in keys)
    if any(_consumes(k) < 0 for k in keys) or used > len(shape):
        return None
    if not any(isinstance(k, Const) and k.value is Ellipsis for k in keys):
        keys.append(Const(Ellipsis))
    out: list[Dim] = []
    advanced: list[Shape] = []
    first = -1
    place = 0
    for k in keys:
        if isinstance(k, Const) and k.value is None:
            out.append(1)
        elif isinstance(k, Const) and k.value is Ellipsis:
            skip = len(shape) - used
            out.extend(shape[place : place + skip])
            place += skip
        elif is_slice(k):
            out.append(slice_length(shape[place], k))
            place += 1
        elif isinstance(k, (Tensor, SequenceValue)):
            taken = _consumes(k)
            part: Shape = (None,) if isinstance(k, Tensor) and k.dtype == "bool" else index_shape(k)
            advanced.append(part)
            first = len(out) if first < 0 else first
            place += taken
        elif isinstance(k, (Const, Host)):
            place += 1
        else:
            return None
    if not advanced:
        return tuple(out)
    spread = broadcast(*advanced)
    return None if spread is None else (*out[:first], *spread, *out[first:])


def index_shape(key: Value) -> Shape:
    """The shape of one advanced index: a tensor's own, or that of a (nested) list of numbers."""
    if isinstance(key, Tensor):
        return key.shape
    if isinstance(key, SequenceValue) and (length := key.length) is not None:
        if any(isinstance(i, Const) and isinstance(i.value, bool) for i in key.items):
            return None  # a mask
        if key.items and isinstance(key.items[0], SequenceValue):
            inner = index_shape(key.items[0])
            return None if inner is None else (length, *inner)
        return (length,)
    return None


def _consumes(key: Value) -> int:
    """How many dims of the base an index uses up; -1 if not known."""
    if isinstance(key, Const):
        return 0 if key.value is None or key.value is Ellipsis else 1
    if isinstance(key, Tensor) and key.dtype == "bool":
        return -1 if key.shape is None else len(key.shape)
    if isinstance(key, (Host, Tensor)):
        return 1
    if isinstance(key, SequenceValue):
        return 1
    if isinstance(key, Mapping):
        return -1
    return -1
