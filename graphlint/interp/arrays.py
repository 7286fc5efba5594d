"""numpy arrays that look at a tensor's memory: `array = tensor.numpy()`. What is written or read there is the tensor's.

An array without a tensor behind it is memory of its own, of which nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import HostRead, Write
from graphlint.source import Span
from graphlint.value import Const, Host, Instance, Sequence, Tensor, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

CLASS = "numpy.ndarray"
#: Methods that hand back an array over the same memory.
_VIEWS = frozenset({"reshape", "view", "ravel", "squeeze", "transpose"})
#: Methods that write into the array, with the position of what they write.
_WRITES = {"fill": 0, "put": 1, "itemset": 1, "sort": -1, "partition": -1}


def tensor_of(value: Value | None) -> Tensor | None:
    """The tensor whose memory an array shows."""
    if isinstance(value, Instance) and value.external == CLASS:
        held = value.attrs.get("$tensor")
        return held if isinstance(held, Tensor) else None
    return None


def written(
    m: Machine, array: Value, how: str, source: Value | None, span: Span, text: str, index: Value | None = None
) -> bool:
    """Notes a write through an array; False if no tensor is behind it."""
    tensor = tensor_of(array)
    if tensor is None:
        return False
    m.writes(m.emit(Write, span, target=tensor, how=how, source=source, index=index, text=text), tensor)
    return True


def item(m: Machine, array: Instance, index: Value, span: Span, text: str) -> Value:
    """`array[index]`: a slice is an array over the same memory, anything else is read there and then."""
    parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]
    views = [
        p for p in parts if (isinstance(p, Sequence) and p.kind == "slice") or (isinstance(p, Const) and p.value is ...)
    ]
    if views and all(isinstance(p, (Const, Host, Sequence)) for p in parts):
        return array
    return read(m, array, span, text)


def read(m: Machine, array: Instance, span: Span, text: str) -> Value:
    """The host looks at what the array holds."""
    tensor = tensor_of(array)
    if tensor is not None and m.region is None:
        m.emit(HostRead, span, op="numpy", value=tensor, text=text)
    return Unknown()


def method(m: Machine, array: Instance, name: str, args: tuple[Value, ...], span: Span, text: str) -> Value | None:
    """A method of an array over a tensor's memory; None if it is none of those that count."""
    if tensor_of(array) is None:
        return None
    if name in _WRITES:
        position = _WRITES[name]
        written(m, array, f"{name}_", args[position] if 0 <= position < len(args) else None, span, text)
        return Const(None)
    if name in _VIEWS:
        return array
    if name in ("tolist", "item", "sum", "max", "min", "mean", "copy", "astype", "any", "all", "tobytes"):
        found = read(m, array, span, text)
        return m.instance_of(array.cls, span) if name in ("copy", "astype") else found
    return None
