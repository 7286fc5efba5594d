"""What a container holds one by one, and what a loop over it binds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Iterate
from graphlint.interp import enums, subscripts
from graphlint.interp.objects import ClassValue
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    Const,
    Host,
    Instance,
    Mapping,
    Sequence,
    Tensor,
    Union,
    Unknown,
    Value,
    join,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: So many entries of a mapping are looped over one by one.
ENTRIES = 64
#: So many numbers of a range, or repeated items, are held one by one.
LISTED = 64
#: So many modules of a model are looped over one by one.
MODULES = 64


def elements(m: Machine, value: Value) -> list[Value]:
    """The items of a container that are known one by one."""
    match value:
        case Sequence(kind="range"):
            numbers = value.numbers
            if numbers is not None and len(numbers) <= LISTED:
                return [Const(n) for n in numbers]
            return [Host("loop", inputs=frozenset().union(*map(origins, value.items)))]
        case Sequence():
            return [*value.items, *([value.rest] if value.rest is not None else [])]
        case Mapping():
            return [subscripts.of_key(k) for k in value.items]
        case ClassValue():
            return _members(m, value)
        case Tensor():
            return [_row(value)]
        case Union():
            return [x for o in value.options for x in elements(m, o)]
        case Instance() if "$items" in value.attrs:
            return elements(m, value.attrs["$items"])
        case _:
            return []


def _members(m: Machine, cls: ClassValue) -> list[Value]:
    """The members of an enumeration, a few of them."""
    from graphlint.interp.attributes import attribute_of

    m.names.load(m, cls)
    if not enums.is_enum(cls):
        return []
    names = [n for n, v in cls.attrs.items() if enums.is_member(cls, n, v)]
    return [attribute_of(m, cls, n, Span(0, 0, 0, 0)) for n in names[:4]] if len(names) <= 4 else []


def _row(value: Tensor) -> Tensor:
    """A row of a tensor: a view, whatever the index."""
    shape = value.shape[1:] if value.shape else None
    return Tensor(
        value.storage, value.device, shape, value.dtype, "[i]", value.requires_grad, value.grad_graph, value.sure
    )


def listed(m: Machine, kind: str, source: Sequence) -> Sequence:
    """Another sequence of what is in `source`: as long as that, where its length is known."""
    if source.kind != "range":
        made = m.sequence(kind, list(source.items), source.rest, source.sized)
        made.placed = source.placed
        return made
    held = elements(m, source)
    return m.sequence(kind, held) if source.length == len(held) else m.sequence(kind, [], join(*held))


def rows(m: Machine, sources: tuple[Value, ...], node: tree.Expr) -> tuple[list[list[Value]], bool]:
    """What a loop over `zip(*sources)` sees, and whether it runs exactly once for each: what stands side by side."""
    columns = [iterate(m, s, node) for s in sources]
    held = [s.attrs.get("$items", s) if isinstance(s, Instance) else s for s in sources]
    if all(isinstance(s, Sequence) and s.kind != "range" and s.length is not None for s in held):
        whole = [s.items for s in held if isinstance(s, Sequence)]
        length = min(map(len, whole))
        every = all(len(c[0]) >= length for c in columns)
        return [[w[i] for w in whole] for i in (range(length) if every else (0, 1, 2, length - 1))], True
    for index, source in enumerate(held):
        if isinstance(source, Sequence) and source.rest is not None and source.items:
            # Behind what was seen in its place may stand any of it.
            seen = columns[index][0][:-1] if source.placed else []
            columns[index] = ([*seen, join(*elements(m, source))], False)
    length = min((len(c[0]) for c in columns if c[1]), default=max(len(c[0]) for c in columns))
    exact = all(c[1] for c in columns)
    return [[c[0][min(i, len(c[0]) - 1)] for c in columns if c[0]] for i in range(length)], exact


def distinct(made: Sequence) -> Sequence:
    """A set, without what it holds twice; how many it holds is known if all are."""
    kept: list[Value] = []
    for item in made.items:
        if not isinstance(item, Const) or not any(isinstance(k, Const) and k.value == item.value for k in kept):
            kept.append(item)
    made.items = kept
    made.sized = made.sized and (len(kept) < 2 or all(isinstance(k, (Const, Instance, Tensor)) for k in kept))
    return made


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


def shortened(source: Value, items: list[Value]) -> bool:
    """True if `items` are only some of those that a loop over `source` sees."""
    if isinstance(source, Instance):
        source = source.attrs.get("$items", source)
    if isinstance(source, Mapping):
        return len(source.items) > len(items)
    if not isinstance(source, Sequence):
        return False
    if source.kind == "range":
        length = source.length
        return length is not None and length > len(items)
    return not source.sized or len(source.items) > len(items)


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
            return _differing(items), True
        case Sequence(items=items, rest=rest) if rest is not None:
            few = items[:ENTRIES] if _are_entries(items) else items[:3]
            return ([*few, rest] if items else [rest, rest]), False
        case Mapping(items=mapping_items, rest=rest, keys=keys):
            known: list[Value] = [subscripts.of_key(k) for k in mapping_items]
            if rest is not None:
                known += [keys or Host("loop", kind=""), keys or Host("loop", kind="")]
            return known[:ENTRIES], rest is None
        case Tensor():
            return [_row(source), _row(source)], False
        case Const(value=str(text)):
            return [Const(c) for c in text[:3]], False
        case ClassValue() if members := _members(m, source):
            return members, True
        case Instance():
            m.emit(Iterate, node.span, value=source)
            return _iterate_instance(m, source, node)
        case Host():
            return [Host("loop", kind=source.kind), Host("loop", kind=source.kind)], False
        case _:
            hint = getattr(source, "hint", "")
            return [Unknown(hint), Unknown(hint)], False


def _differing(items: list[Value]) -> list[Value]:
    """Of many items the first three that differ, and the last one."""
    kept: list[Value] = []
    for item in items:
        if len(kept) == 3:
            break
        if not isinstance(item, Const) or not any(isinstance(k, Const) and k.value == item.value for k in kept):
            kept.append(item)
    return [*kept, items[-1]]


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
        # The last stride of a walk over data may be cut short.
        last = [Const(known[-1])] if known.step > 1 and known.stop != known[-1] + known.step else []
        return [Const(known[0]), Host("loop", inputs=origins(loop)), *last], True
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
            return [subscripts.of_key(k) for k in value.items][:count] + [Unknown()] * max(0, count - len(value.items))
        case Instance() if "$items" in value.attrs:
            return unpacked(m, value.attrs["$items"], count, starred)
        case Instance() if isinstance(value.cls, ClassValue) and value.cls.dataclass:
            return list(value.attrs.values())[:count] + [Unknown()] * max(0, count - len(value.attrs))
        case Unknown():
            return [Unknown(value.hint) for _ in range(count)]
        case _:
            return [Unknown() for _ in range(count)]
