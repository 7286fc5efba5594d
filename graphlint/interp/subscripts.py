"""Indexing, iterating and unpacking: containers by key, tensors by what the index does to device and memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphlint.fact import Bind, HostRead, Index, Iterate, Keep, Pick, Write
from graphlint.interp import operators
from graphlint.interp.objects import ClassValue
from graphlint.interp.spelling import spelled
from graphlint.knowledge import shapes
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    CAPTURING,
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


#: So many entries of a mapping are looped over one by one.
ENTRIES = 64
#: So many modules of a model are looped over one by one.
MODULES = 64


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
            return _mapping_item(m, base, index)
        case Instance():
            return _instance_item(m, base, index, node)
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
        start, stop, step = (i.value if isinstance(i, Const) else ... for i in index.items)
        if base.rest is None and ... not in (start, stop, step):
            try:
                return m.sequence(base.kind, base.items[start:stop:step])  # type: ignore[index]
            except (TypeError, ValueError):
                pass
        return m.sequence(base.kind, list(base.items), base.rest if base.rest is not None else None)
    if isinstance(index, Const) and isinstance(index.value, int):
        at = index.value
        if base.kind == "shape" and base.rest is not None:
            return base.rest
        if -len(base.items) <= at < len(base.items) and (base.rest is None or at >= 0):
            return m.at_place(base.items[at], Place(base.id, str(at), "item"))
        return base.rest if base.rest is not None else Unknown()
    if isinstance(index, Tensor):
        m.emit(HostRead, node.span, op="index", value=index, text=spelled(node))
    candidates = [*base.items, *([base.rest] if base.rest is not None else [])]
    return m.at_place(join(*candidates), Place(base.id, "*", "item")) if candidates else Unknown()


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """An object as a key: two are equal if they are the same object."""

    id: int
    value: Value = field(compare=False)

    def __str__(self) -> str:
        return f"<{self.id}>"


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
    return index


def _mapping_item(m: Machine, base: Mapping, index: Value) -> Value:
    index = as_key(index)
    if isinstance(index, Const):
        key = index.value
        if key.__hash__ is not None and key in base.items:
            return m.at_place(base.items[key], Place(base.id, str(key), "item"))
        if base.rest is not None:
            return m.at_place(base.rest, Place(base.id, "*", "item"))
        if base.kind == "defaultdict" and base.keys is not None:
            value = m.call(base.keys, (), {}, Span(0, 0, 0, 0), "default_factory")
            base.items[key] = value
            return value
        return join(*base.items.values()) if base.items else Unknown()
    if base.kind == "defaultdict" and base.rest is None and base.keys is not None:
        base.rest = m.call(base.keys, (), {}, Span(0, 0, 0, 0), "default_factory")
    candidates = [*base.items.values(), *([base.rest] if base.rest is not None else [])]
    if not candidates:
        return Unknown()
    return m.at_place(join(*candidates), Place(base.id, "*", "item"))


def _instance_item(m: Machine, base: Instance, index: Value, node: tree.Subscript) -> Value:
    from graphlint.interp.attributes import find_method

    method = find_method(m, base, "__getitem__")
    if method is not None:
        return m.call(method, (index,), {}, node.span, "__getitem__")
    if "$items" in base.attrs:
        inner = base.attrs["$items"]
        return get_item(m, inner, index, node)
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
        elif isinstance(part, (Const, Host)):
            left.pop(0)
        elif isinstance(part, Sequence) and part.kind == "slice":
            out.append(_sliced(left.pop(0), part))
        elif isinstance(part, Tensor) and part.dtype != "bool":
            left.pop(0)
            if part.shape is None or len(parts) > 1:
                return None
            out += list(part.shape)
        elif isinstance(part, Sequence) and part.rest is None:
            left.pop(0)
            out.append(len(part.items))
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


def set_item_of(m: Machine, target: tree.Subscript, value: Value, span: Span, augmented: bool = False) -> None:
    """`target[...] = value`."""
    base = m.eval(target.value)
    index = m.eval(target.index)
    for option in options(base):
        set_item(m, option, index, value, target, span, augmented)


def set_item(
    m: Machine, base: Value, index: Value, value: Value, target: tree.Subscript, span: Span, augmented: bool = False
) -> None:
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
                for item in elements(m, value):
                    m.append(base, item)
                return
            at = index.value if isinstance(index, Const) and isinstance(index.value, int) else None
            place = Place(base.id, str(at) if at is not None else "*", "item")
            old = base.items[at] if at is not None and -len(base.items) <= at < len(base.items) else base.rest
            if at is not None and -len(base.items) <= at < len(base.items):
                base.items[at] = value
            else:
                base.rest = value if base.rest is None else join(base.rest, value)
            m.emit(Bind, span, place=place, value=value, old=old, owner=base, text=text)
            note_container(m, base, target, "setitem", value)
        case Mapping():
            known = as_key(index)
            key = known.value if isinstance(known, Const) and known.value.__hash__ is not None else None
            if key is not None or (isinstance(index, Const) and index.value is None):
                m.bind(span, base.items, Place(base.id, str(key), "item"), value, owner=base, text=text, key=key)
            else:
                old = base.rest
                base.rest = value if old is None else join(old, value)
                base.keys = index if base.kind != "defaultdict" else base.keys
                m.emit(Bind, span, place=Place(base.id, "*", "item"), value=value, old=old, owner=base, text=text)
            note_container(m, base, target, "setitem", value, index)
        case Instance():
            from graphlint.interp.attributes import find_method

            method = find_method(m, base, "__setitem__")
            if method is not None:
                m.call(method, (index, value), {}, span, "__setitem__")
            elif "$items" in base.attrs:
                set_item(m, base.attrs["$items"], index, value, target, span)
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
    elif isinstance(container, Sequence) and isinstance(key, Const) and isinstance(key.value, int):
        at = key.value
        if -len(container.items) <= at < len(container.items):
            old = container.items.pop(at)
            place = Place(container.id, str(at), "item")
            m.emit(Bind, node.span, place=place, value=None, old=old, owner=container, how="del", text=text)


# ------------------------------------------------------------------------------------------------ iterating


def either_mapping(m: Machine, value: Value) -> Value:
    """Of several dictionaries one that holds what any of them does; anything else as it is."""
    if not (isinstance(value, Union) and all(isinstance(o, Mapping) for o in value.options)):
        return value
    tables = [o for o in value.options if isinstance(o, Mapping)]
    keys = dict.fromkeys(key for table in tables for key in table.items)
    rests = [table.rest for table in tables if table.rest is not None]
    return m.mapping(
        {key: join(*(table.items[key] for table in tables if key in table.items)) for key in keys},
        join(*rests) if rests else None,
    )


def elements(m: Machine, value: Value) -> list[Value]:
    """The items of a container that are known one by one."""
    match value:
        case Sequence():
            return [*value.items, *([value.rest] if value.rest is not None else [])]
        case Mapping():
            return [of_key(k) for k in value.items]
        case Tensor():
            return [_row(value)]
        case Union():
            return [x for o in value.options for x in elements(m, o)]
        case Instance() if "$items" in value.attrs:
            return elements(m, value.attrs["$items"])
        case _:
            return []


def _row(value: Tensor) -> Tensor:
    """A row of a tensor: a view, whatever the index."""
    shape = value.shape[1:] if value.shape else None
    return Tensor(
        value.storage, value.device, shape, value.dtype, "[i]", value.requires_grad, value.grad_graph, value.sure
    )


def shortened(source: Value, items: list[Value]) -> bool:
    """True if `items` are only some of those that a loop over `source` sees."""
    if not isinstance(source, Sequence):
        return False
    if source.kind != "range":
        return len(source.items) > len(items)
    bounds = [i.value for i in source.items if isinstance(i, Const) and isinstance(i.value, int)]
    return len(bounds) == len(source.items) and 0 < len(bounds) < 4 and len(range(*bounds)) > len(items)


def iterate(m: Machine, source: Value, node: tree.Expr) -> tuple[list[Value], bool]:
    """What a loop over `source` sees: the items one by one (a few), or the same unknown item twice.

    The second part is True if the loop runs exactly once for each item.
    """
    if isinstance(source, Union):
        candidates = [iterate(m, o, node)[0] for o in source.options]
        merged = [v for c in candidates for v in c][:4]
        return merged or [Unknown(), Unknown()], False
    match source:
        case Sequence(kind="range", items=items):
            return _range(m, items)
        case Sequence(items=items, rest=None):
            # The parts of a model are told apart: what a loop sets on each is found on each.
            # So are the entries of a mapping: a loop that copies each into its place leaves none out.
            if source.kind == "modules":
                items = _told_apart(items)
            if len(items) <= (MODULES if source.kind == "modules" else ENTRIES if _are_entries(items) else 4):
                return list(items), True
            return [*items[:3], items[-1]], True
        case Sequence(items=items, rest=rest) if rest is not None:
            few = items[:ENTRIES] if _are_entries(items) else items[:3]
            return ([*few, rest] if items else [rest, rest]), False
        case Mapping(items=mapping_items, rest=rest, keys=keys):
            known: list[Value] = [of_key(k) for k in mapping_items]
            if rest is not None:
                known += [keys or Host("loop", kind=""), keys or Host("loop", kind="")]
            return known[:ENTRIES], rest is None
        case Tensor():
            return [_row(source), _row(source)], False
        case Const(value=str(text)):
            return [Const(c) for c in text[:3]], False
        case Instance():
            m.emit(Iterate, node.span, value=source)
            return _iterate_instance(m, source, node)
        case Host():
            return [Host("loop", kind=source.kind), Host("loop", kind=source.kind)], False
        case _:
            hint = getattr(source, "hint", "")
            return [Unknown(hint), Unknown(hint)], False


def _told_apart(modules: list[Value]) -> list[Value]:
    """Of many modules those whose code is read, and two of each kind that a package brings."""
    if len(modules) <= MODULES // 2:
        return modules
    kept: list[Value] = []
    count: dict[str, int] = {}
    for module in modules:
        name = module.external if isinstance(module, Instance) else ""
        count[name] = count.get(name, 0) + 1
        if not name or count[name] <= 2:
            kept.append(module)
    return kept


def _are_entries(items: list[Value]) -> bool:
    """True for the (key, value) pairs of a mapping."""
    return all(isinstance(i, Sequence) and i.kind == "tuple" and len(i.items) == 2 for i in items)


def _range(m: Machine, items: list[Value]) -> tuple[list[Value], bool]:
    numbers = [i.value if isinstance(i, Const) and isinstance(i.value, int) else None for i in items]
    if None not in numbers:
        try:
            known = range(*[n for n in numbers if n is not None])
        except (TypeError, ValueError):
            return [], True
        if len(known) <= 3:
            return [Const(n) for n in known], True
        loop = Host("loop")
        return [Const(known[0]), Host("loop", inputs=origins(loop))], True
    inputs = frozenset().union(*(origins(i) for i in items))
    return [Host("loop", inputs=inputs), Host("loop", inputs=inputs)], False


def _iterate_instance(m: Machine, source: Instance, node: tree.Expr) -> tuple[list[Value], bool]:
    from graphlint.interp.attributes import find_method

    if "$items" in source.attrs:
        return iterate(m, source.attrs["$items"], node)
    method = find_method(m, source, "__iter__")
    if method is not None:
        result = m.call(method, (), {}, node.span, "__iter__")
        if isinstance(result, Instance) and result is not source:
            return _iterate_instance(m, result, node)
        if isinstance(result, Instance):
            step = find_method(m, result, "__next__")
            if step is not None:
                item = m.call(step, (), {}, node.span, "__next__")
                return [item, item], False
        if not isinstance(result, Unknown):
            return iterate(m, result, node)
    getter = find_method(m, source, "__getitem__")
    if getter is not None:
        item = m.call(getter, (Host("loop"),), {}, node.span, "__getitem__")
        return [item, item], False
    if source.external.endswith("DataLoader"):
        return m.loader_batches(source)
    return [Unknown(), Unknown()], False


def unpacked(m: Machine, value: Value, count: int, starred: bool) -> list[Value]:
    """`count` values out of `value`, for tuple assignment."""
    match value:
        case Sequence(items=items, rest=rest):
            if starred or (len(items) >= count and rest is None):
                return list(items)
            fill = rest if rest is not None else Unknown()
            return [*items[:count], *([fill] * (count - len(items)))]
        case Tensor():
            return [_row(value) for _ in range(count)]
        case Mapping():
            return [of_key(k) for k in value.items][:count] + [Unknown()] * max(0, count - len(value.items))
        case Instance() if "$items" in value.attrs:
            return unpacked(m, value.attrs["$items"], count, starred)
        case Instance() if isinstance(value.cls, ClassValue) and value.cls.dataclass:
            return list(value.attrs.values())[:count] + [Unknown()] * max(0, count - len(value.attrs))
        case Unknown():
            return [Unknown(value.hint) for _ in range(count)]
        case _:
            return [Unknown() for _ in range(count)]
