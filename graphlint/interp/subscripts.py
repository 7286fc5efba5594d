"""Indexing, iterating and unpacking: containers by key, tensors by what the index does to device and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphlint.fact import Bind, HostRead, Index, Keep, Pick, Write
from graphlint.interp import arrays, attribute_tables, enums, operators, protocols, slices, tables
from graphlint.interp.objects import ClassValue
from graphlint.interp.spelling import spelled
from graphlint.knowledge import shapes
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    CAPTURING,
    STEADY,
    Const,
    External,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine


def get_item(m: Machine, base: Value, index: Value, node: tree.Subscript) -> Value:
    if isinstance(base, Union):
        found = [get_item(m, o, index, node) for o in base.options if not (isinstance(o, Const) and o.value is None)]
        return join(*found) if found else Unknown()
    kept = isinstance(base, (Sequence, Mapping)) and (m.region is None or base.born is not m.region)
    chosen = kept and isinstance(index, (Const, Host)) and bool(origins(index))
    if chosen and (m.region is not None or CAPTURING in origins(index)):
        m.emit(Pick, node.span, container=base, key=index)
    match base:
        case Tensor():
            return _tensor_item(m, base, index, node)
        case Sequence():
            return _sequence_item(m, base, index, node)
        case Mapping():
            return _mapping_item(m, base, index, node)
        case Instance():
            return _instance_item(m, base, index, node)
        case ClassValue() if (named := enums.by_name(m, base, index)) is not None:
            return named
        case ClassValue() | External():
            return base  # a generic alias: `Cls[int]`
        case Host(kind="string"):
            return Host(kind="string", inputs=origins(base))
        case Host(source="random"):
            return base
        case Const(value=str(text)) if isinstance(index, Const) and isinstance(index.value, int):
            return Const(text[index.value]) if -len(text) <= index.value < len(text) else Unknown()
        case Unknown():
            return Unknown(base.hint)
        case _:
            return Unknown()


def _sequence_item(m: Machine, base: Sequence, index: Value, node: tree.Subscript) -> Value:
    if isinstance(index, Sequence) and index.kind == "slice":
        return _part(m, base, index)
    if isinstance(index, Const) and isinstance(index.value, int) and base.placed:
        at = index.value
        if base.kind == "range":
            numbers = base.numbers
            within = numbers is not None and -len(numbers) <= at < len(numbers)
            return Const(numbers[at]) if numbers is not None and within else Host("loop")
        if base.kind == "shape" and base.rest is not None:
            return base.rest
        if -len(base.items) <= at < len(base.items) and (base.rest is None or at >= 0):
            return m.at_place(base.items[at], Place(base.id, str(slices.position(base, at)), "item"))
        return base.rest if base.rest is not None else Unknown()
    if isinstance(index, Tensor):
        m.emit(HostRead, node.span, op="index", value=index, text=spelled(node))
    candidates = [*base.items, *([base.rest] if base.rest is not None else [])]
    return m.at_place(join(*candidates), Place(base.id, "*", "item")) if candidates else Unknown()


def _part(m: Machine, base: Sequence, part: Sequence) -> Value:
    """`base[start:stop:step]`."""
    bounds = [i.value for i in part.items if isinstance(i, Const)]
    numbers = [b for b in bounds if b is None or isinstance(b, int)]
    cut = slice(*numbers) if len(numbers) == 3 and numbers[2] != 0 else None
    if base.kind == "range":
        if base.numbers is None or cut is None:
            return m.sequence("list", [], Host("loop", inputs=frozenset().union(*map(origins, base.items))))
        left = base.numbers[cut]
        return Sequence(kind="range", items=[Const(n) for n in (left.start, left.stop, left.step)])
    whole = cut is not None and cut.indices(len(base.items)) == (0, len(base.items), 1)
    if cut is not None and base.length is not None:
        return m.sequence(base.kind, base.items[cut])
    return m.sequence(base.kind, list(base.items), base.rest, sized=base.sized and whole)


@dataclass(frozen=True, slots=True, repr=False)
class ObjectKey:
    """An object as a key: two are equal if they are the same object."""

    id: int | str
    value: Value = field(compare=False)

    def __repr__(self) -> str:
        return f"<{self.id}>"  # in a tuple, too: the object itself may hold a whole program


def of_key(key: object) -> Value:
    """What a loop over a mapping sees of a key."""
    return key.value if isinstance(key, ObjectKey) else Const(key)


def as_key(index: Value) -> Value:
    """A tuple of constants as one constant, so that it can be a key."""
    if isinstance(index, Sequence) and index.kind == "tuple" and index.rest is None and index.items:
        parts = [as_key(i) for i in index.items]
        if all(isinstance(p, Const) and p.value.__hash__ is not None for p in parts):
            return Const(tuple(p.value for p in parts if isinstance(p, Const)))
    if isinstance(index, Instance) and not index.external:
        return Const(ObjectKey(index.id, index))
    if isinstance(index, Host) and index.symbol is not None and index.symbol.startswith(STEADY):
        return Const(index.symbol, index.inputs)
    if isinstance(index, External) and index.name.startswith("torch."):
        return Const(ObjectKey(index.name, index))  # a dtype, a layout
    return index


def _mapping_item(m: Machine, base: Mapping, index: Value, node: tree.Subscript) -> Value:
    index = as_key(index)
    if isinstance(index, Const):
        key = index.value
        if key.__hash__ is not None and key in base.items:
            return m.at_place(base.items[key], attribute_tables.place(base, key))
        if base.rest is not None:
            return m.at_place(base.rest, Place(base.id, "*", "item"))
        if base.kind == "defaultdict" and base.keys is not None:
            value = m.call(base.keys, (), {}, Span(0, 0, 0, 0), "default_factory")
            m.store(base.items, key, value)
            tables.made_on_demand(m, base, key, value, node.span, spelled(node))
            return m.at_place(value, Place(base.id, str(key), "item"))
        if base.kind == "Counter":
            return Const(0, place=Place(base.id, str(key), "item"))
        return join(*base.items.values()) if base.items else Unknown()
    if base.kind == "defaultdict" and base.rest is None and base.keys is not None:
        base.rest = m.call(base.keys, (), {}, Span(0, 0, 0, 0), "default_factory")
        tables.made_on_demand(m, base, "*", base.rest, node.span, spelled(node))
    candidates = [*base.items.values(), *([base.rest] if base.rest is not None else [])]
    if base.kind == "Counter":
        return Host(place=Place(base.id, "*", "item"))
    if not candidates:
        return Unknown()
    return m.at_place(join(*candidates), Place(base.id, "*", "item"))


def _instance_item(m: Machine, base: Instance, index: Value, node: tree.Subscript) -> Value:
    from graphlint.interp.attributes import find_method

    method = find_method(m, base, "__getitem__")
    if method is not None:
        return m.call(method, (index,), {}, node.span, "__getitem__")
    if "$items" in base.attrs:
        return tables.item(m, base, index, node)
    if arrays.tensor_of(base) is not None:
        return arrays.item(m, base, index, node.span, spelled(node))
    return Unknown()


# --------------------------------------------------------------------------------------------------- tensors


def _indices(index: Value) -> list[Value]:
    return index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]


def index_kind(index: Value) -> str:
    """What one index does: "view" (host int, slice, None), "gather" (an index tensor), "mask", "host-list"."""
    match index:
        case Tensor(dtype="bool"):
            return "mask"
        case Tensor():
            return "gather"
        case Sequence(kind="slice"):
            return "view"
        case Sequence():
            return "host-list"
        case Const() | Host():
            return "view"
        case _:
            return "unknown"


def _tensor_item(m: Machine, base: Tensor, index: Value, node: tree.Subscript) -> Value:
    parts = _indices(index)
    kinds = {index_kind(p) for o in parts for p in options(o)}
    shape = _item_shape(base, parts)
    if kinds <= {"view"}:
        result = Tensor(
            base.storage, base.device, shape, base.dtype, f"[{spelled(node.index)}]",
            base.requires_grad, base.grad_graph, base.sure,
        )  # fmt: skip
    else:
        result = m.tensor(
            node.span, device=base.device, shape=None if "mask" in kinds else shape, dtype=base.dtype, sure=base.sure,
            requires_grad=base.requires_grad, grad_graph=base.grad_graph or base.requires_grad,
        )  # fmt: skip
    fact = m.emit(Index, node.span, base=base, index=index, result=result, text=spelled(node))
    m.reads(fact, base, *parts)
    operators.note_output(m, result, fact)
    return result


def _item_shape(base: Tensor, parts: list[Value]) -> tuple[int | str | None, ...] | None:
    if base.shape is None:
        return None
    out: list[int | str | None] = []
    left = list(base.shape)
    real = [p for p in parts if not (isinstance(p, Const) and p.value in (None, ...))]
    for part in parts:
        if isinstance(part, Const) and part.value is ...:
            keep = len(left) - (len(real) - sum(1 for o in out if o == "\0"))
            rest = len(parts) - parts.index(part) - 1
            take = max(0, len(left) - rest)
            out += left[:take]
            left = left[take:]
            del keep
        elif isinstance(part, Const) and part.value is None:
            out.append(1)
        elif not left:
            return None
        elif isinstance(part, Host) and part.source == "random":
            return None  # a number, or an array of numbers
        elif isinstance(part, (Const, Host)):
            left.pop(0)
        elif isinstance(part, Sequence) and part.kind == "slice":
            out.append(_sliced(left.pop(0), part))
        elif isinstance(part, Tensor) and part.dtype != "bool":
            left.pop(0)
            if part.shape is None or len(parts) > 1:
                return None
            out += list(part.shape)
        elif isinstance(part, Sequence):
            left.pop(0)
            shape = shapes.index_shape(part)
            if shape is None or sum(isinstance(p, Sequence) and p.kind != "slice" for p in parts) > 1:
                return None
            out += shape
        else:
            return None
    return (*out, *left)


def _sliced(size: int | str | None, part: Sequence) -> int | str | None:
    start, stop, step = part.items
    if isinstance(step, Const) and step.value not in (None, 1):
        return None
    if isinstance(start, Const) and start.value in (None, 0):
        if isinstance(stop, Const) and stop.value is None:
            return size
        dim = shapes.dim_of(stop)
        if isinstance(dim, int) and isinstance(size, int):
            return min(dim, size) if dim >= 0 else max(0, size + dim)
        return dim if not (isinstance(dim, int) and dim < 0) else None
    if isinstance(size, int):
        a, b = shapes.int_of(start), shapes.int_of(stop)
        if a is not None and (b is not None or (isinstance(stop, Const) and stop.value is None)):
            return len(range(*slice(a, b).indices(size)))
    return None


# ------------------------------------------------------------------------------------------------- storing


def set_item_of(
    m: Machine, target: tree.Subscript, value: Value, span: Span, augmented: bool = False, how: str = "="
) -> None:
    """`target[...] = value`."""
    base = m.eval(target.value)
    index = m.eval(target.index)
    for option in options(base):
        set_item(m, option, index, value, target, span, augmented, how)


def set_item(
    m: Machine, base: Value, index: Value, value: Value, target: tree.Subscript, span: Span, augmented: bool = False,
    how: str = "=",
) -> None:  # fmt: skip
    text = spelled(target)
    match base:
        case Tensor():
            if augmented and all(index_kind(p) == "view" for p in _indices(index)):
                return
            fact = m.emit(Write, span, target=base, how="setitem", source=value, index=index, text=text)
            m.reads(fact, value, *_indices(index))
            m.writes(fact, base)
        case Sequence():
            if isinstance(index, Sequence) and index.kind == "slice":
                slices.store(m, base, index, value, span, text)
                return
            at = index.value if isinstance(index, Const) and isinstance(index.value, int) else None
            at = slices.position(base, at) if at is not None else None
            place = Place(base.id, str(at) if at is not None else "*", "item")
            old = base.items[at] if at is not None and -len(base.items) <= at < len(base.items) else base.rest
            if at is not None and -len(base.items) <= at < len(base.items):
                base.items[at] = value
            else:
                base.rest = value if base.rest is None else join(base.rest, value)
            m.emit(Bind, span, place=place, value=value, old=old, owner=base, how=how, text=text)
            note_container(m, base, target, "setitem", value)
        case Mapping():
            known = as_key(index)
            key = known.value if isinstance(known, Const) and known.value.__hash__ is not None else None
            if attribute_tables.stored(m, base, key, value, span, how, text):
                return
            if key not in base.items:
                m.grows(base.id)
            if key is not None or (isinstance(index, Const) and index.value is None):
                m.bind(
                    span, base.items, Place(base.id, str(key), "item"), value, owner=base, how=how, text=text, key=key
                )
            else:
                old = base.rest
                base.rest = value if old is None else join(old, value)
                base.keys = index if base.kind != "defaultdict" else base.keys
                place = Place(base.id, "*", "item")
                m.emit(Bind, span, place=place, value=value, old=old, owner=base, how=how, text=text)
            note_container(m, base, target, "setitem", value, index)
        case Instance():
            from graphlint.interp.attributes import find_method

            method = find_method(m, base, "__setitem__")
            if method is not None:
                m.call(method, (index, value), {}, span, "__setitem__")
            elif "$items" in base.attrs:
                set_item(m, base.attrs["$items"], index, value, target, span, augmented, how)
            elif not augmented:
                arrays.written(m, base, "setitem", value, span, text, index)
        case Unknown():
            place = Place(id(base), "*", "item")
            m.emit(Bind, span, place=place, value=value, old=None, owner=base, text=text)


def note_container(
    m: Machine, container: Value, node: tree.Node, how: str, value: Value, key: Value | None = None
) -> None:
    """A value goes into a container: rules look for what lives on in it."""
    m.emit(Keep, node.span, container=container, value=value, how=how, key=key)


def delete_item(m: Machine, container: Value, key: Value, node: tree.Subscript) -> None:
    text = spelled(node)
    if isinstance(container, Mapping):
        key = as_key(key)
        name = key.value if isinstance(key, Const) and key.value.__hash__ is not None else None
        old = container.items.get(name)
        if name in container.items:
            m.remove(container.items, name)
        place = Place(container.id, str(name) if name is not None else "*", "item")
        m.emit(
            Bind, node.span, place=place, value=None, old=old or container.rest, owner=container, how="del", text=text
        )
    elif isinstance(container, Sequence) and isinstance(key, Sequence) and key.kind == "slice":
        slices.delete(m, container, key, node.span, text)
    elif (method := protocols.own_method(m, container, ("__delitem__",))) is not None:
        m.call(method[1], (key,), {}, node.span, "__delitem__")
    elif isinstance(container, Sequence) and isinstance(key, Const) and isinstance(key.value, int):
        at = key.value
        if -len(container.items) <= at < len(container.items):
            old = container.items.pop(at)
            place = Place(container.id, str(at), "item")
            m.emit(Bind, node.span, place=place, value=None, old=old, owner=container, how="del", text=text)


# ------------------------------------------------------------------------------------------------ iterating
