"""Methods of lists, dicts, sets, strings and host scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Bind, HostRead, Keep
from graphlint.interp import attribute_tables, iteration, protocols, subscripts, tables, turning
from graphlint.source import Span
from graphlint.value import (
    Const,
    Host,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Unknown,
    Value,
    join,
    options,
    origins,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_PURE = frozenset(
    [
        "startswith",
        "endswith",
        "lower",
        "upper",
        "strip",
        "lstrip",
        "rstrip",
        "split",
        "replace",
        "join",
        "title",
        "isdigit",
        "find",
        "count",
        "removeprefix",
        "removesuffix",
        "rpartition",
        "partition",
    ]
)


def call_sequence(
    m: Machine, receiver: Sequence, name: str, args: Args, kwargs: Kwargs, span: Span, text: str
) -> Value:
    first = args[0] if args else None
    if name in ("append", "add", "appendleft", "put", "put_nowait", "insert"):
        value = args[-1] if args else Unknown()
        m.append(receiver, value)
        m.emit(Keep, span, container=receiver, value=value, how=name, text=text)
        if name in turning.ENDS:
            turning.put(m, receiver, name, value, span, text)
        return Const(None)
    if name in ("extend", "update", "extendleft", "union", "__iadd__") and first is not None:
        items = iteration.elements(m, first)
        if name == "union":
            return m.sequence(receiver.kind, [*receiver.items, *items], receiver.rest, sized=False)
        for item in items:
            m.append(receiver, item)
        receiver.sized = receiver.sized and not (isinstance(first, Sequence) and first.length is None)
        if (isinstance(first, Sequence) and first.rest is not None) or not items:
            receiver.rest = receiver.rest or Unknown()
        m.emit(Keep, span, container=receiver, value=first, how="extend", text=text)
        return Const(None)
    if name in ("pop", "popleft", "get", "get_nowait"):
        items = iteration.elements(m, receiver)
        if receiver.items and receiver.rest is None and not m.in_inexact_loop(receiver.id):
            at = (
                first.value
                if isinstance(first, Const) and isinstance(first.value, int)
                else (0 if name != "pop" else -1)
            )
            item = receiver.items.pop(at) if -len(receiver.items) <= at < len(receiver.items) else Unknown()
        else:
            item = join(*items) if items else Unknown()
        place = Place(receiver.id, "*", "item")
        m.emit(Bind, span, place=place, value=None, old=item, owner=receiver, how="pop", text=text)
        turning.took(m, receiver, name, first, item)
        return item
    if name in ("clear", "remove", "discard"):
        old = join(*iteration.elements(m, receiver)) if iteration.elements(m, receiver) else None
        if name == "clear":
            receiver.items.clear()
            receiver.rest, receiver.sized = None, True
        place = Place(receiver.id, "*", "item")
        m.emit(Bind, span, place=place, value=None, old=old, owner=receiver, how=name, text=text)
        return Const(None)
    if name in ("copy", "__iter__", "difference", "intersection"):
        return m.sequence(
            receiver.kind, list(receiver.items), receiver.rest, receiver.sized and name in ("copy", "__iter__")
        )
    if name in ("rotate", "reverse"):
        turning.turn(m, receiver, name, first, span, text)
        return Const(None)
    if name == "sort":
        if any(isinstance(i, Tensor) for i in receiver.items) and "key" not in kwargs:
            from graphlint.interp.builtins import compare_tensors

            compare_tensors(m, "sorted", receiver.items, span, text)
        return Const(None)
    if name == "numel":
        return Host("shape")
    if name in ("index", "count", "qsize"):
        return Host("len")
    if name == "__next__":
        items = iteration.elements(m, receiver)
        return join(*items) if items else Unknown()
    return Unknown(name)


def call_mapping(m: Machine, receiver: Mapping, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    first = args[0] if args else Const(None)
    default = args[1] if len(args) > 1 else kwargs.get("default", Const(None))
    keyed = subscripts.as_key(first)
    key = keyed.value if isinstance(keyed, Const) and keyed.value.__hash__ is not None else None
    match name:
        case "get":
            if key is not None and key in receiver.items:
                return m.at_place(receiver.items[key], Place(receiver.id, str(key), "item"))
            candidates = [*receiver.items.values()] if key is None else []
            if receiver.rest is not None:
                candidates.append(receiver.rest)
            if receiver.rest is None and key is not None:
                number = isinstance(default, Const) and isinstance(default.value, (int, float))
                return m.at_place(default, Place(receiver.id, str(key), "item")) if number else default
            return m.at_place(join(*candidates, default), Place(receiver.id, "*", "item"))
        case "setdefault":
            if key is not None and key in receiver.items:
                return receiver.items[key]
            if receiver.rest is None and (key is not None or not receiver.items):
                name_of = str(key) if key is not None else "*"
                tables.made_on_demand(m, receiver, name_of, default, span, text.removesuffix(".setdefault"))
            if attribute_tables.stored(m, receiver, key, default, span, "=", text):
                return default  # the next look at the attributes, or at the name itself, finds it
            if key is not None:
                m.store(receiver.items, key, default)
            else:
                receiver.rest = default if receiver.rest is None else join(receiver.rest, default)
            m.emit(Keep, span, container=receiver, value=default, how="setitem", text=text, key=first)
            return default if receiver.rest is None else join(receiver.rest, default)
        case "items":
            pairs: list[Value] = [
                m.sequence("tuple", [subscripts.of_key(k), m.at_place(v, attribute_tables.place(receiver, k))])
                for k, v in receiver.items.items()
            ]
            rest = None
            if receiver.rest is not None:
                rest = m.sequence(
                    "tuple",
                    [
                        receiver.keys or Host("loop", kind=""),
                        m.at_place(receiver.rest, Place(receiver.id, "*", "item")),
                    ],
                )
            return m.sequence("list", pairs, rest)
        case "values":
            values: list[Value] = [
                m.at_place(v, attribute_tables.place(receiver, k)) for k, v in receiver.items.items()
            ]
            return m.sequence("list", values, receiver.rest)
        case "keys":
            keys: list[Value] = [subscripts.of_key(k) for k in receiver.items]
            return m.sequence("list", keys, Host("loop", kind="") if receiver.rest is not None else None)
        case "popitem":
            return _popitem(m, receiver, args, kwargs, span, text)
        case "pop":
            found = receiver.items.get(key) if key is not None else None
            old = found or receiver.rest
            if key is not None and found is not None:
                m.remove(receiver.items, key)
            place = Place(receiver.id, str(key) if key is not None else "*", "item")
            m.emit(Bind, span, place=place, value=None, old=old, owner=receiver, how="pop", text=text)
            return old if old is not None else default
        case "clear":
            old_value = join(*receiver.items.values()) if receiver.items else receiver.rest
            for known in list(receiver.items):
                m.remove(receiver.items, known)
            receiver.rest = None
            place = Place(receiver.id, "*", "item")
            m.emit(Bind, span, place=place, value=None, old=old_value, owner=receiver, how="clear", text=text)
            return Const(None)
        case "update" | "subtract" if receiver.kind == "Counter":
            return _counted(m, receiver, first, kwargs, span, text)
        case "update":
            given = first if isinstance(first, Mapping) else None
            pairs_in: dict[object, Value] = {
                **(given.items if given else {}),
                **{k: v for k, v in kwargs.items() if k != "*"},
            }
            for known, value in pairs_in.items():
                if attribute_tables.stored(m, receiver, known, value, span, "=", text):
                    continue
                m.bind(
                    span,
                    receiver.items,
                    Place(receiver.id, str(known), "item"),
                    value,
                    owner=receiver,
                    text=text,
                    key=known,
                )
                m.emit(Keep, span, container=receiver, value=value, how="setitem", text=text)
            if not pairs_in:
                receiver.rest = receiver.rest or Unknown()
            return Const(None)
        case "copy":
            return m.mapping(dict(receiver.items), receiver.rest)
        case "append" | "extend":
            return Const(None)
        case _:
            return Unknown(name)


def _popitem(m: Machine, receiver: Mapping, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """The newest entry, or with `last=False` the oldest: (key, value)."""
    last = kwargs.get("last", args[0] if args else Const(True))
    sure = receiver.rest is None and isinstance(last, Const)
    if sure and receiver.items:
        name = list(receiver.items)[-1 if last.value else 0]  # type: ignore[attr-defined]
        key, value = subscripts.of_key(name), receiver.items[name]
        m.remove(receiver.items, name)
    else:
        held = [*receiver.items.values(), *([receiver.rest] if receiver.rest is not None else [])]
        key, value = receiver.keys or Host("loop", kind=""), join(*held) if held else Unknown()
    place = Place(receiver.id, str(key.value) if isinstance(key, Const) else "*", "item")
    m.emit(Bind, span, place=place, value=None, old=value, owner=receiver, how="pop", text=text)
    return m.sequence("tuple", [key, value])


def _counted(m: Machine, receiver: Mapping, given: Value, kwargs: Kwargs, span: Span, text: str) -> Value:
    """`Counter.update(...)`: what is given is added to what is there."""
    names = list(given.items) if isinstance(given, Mapping) else []
    if isinstance(given, Sequence):
        names = [k.value for k in map(subscripts.as_key, given.items) if isinstance(k, Const)]
    for key in (*names, *kwargs) or ("*",):
        if key.__hash__ is None:
            continue
        place = Place(receiver.id, str(key), "item")
        value = Host(inputs=frozenset({place}))
        if key == "*":
            receiver.rest = value
        m.bind(span, receiver.items, place, value, owner=receiver, how="+=", text=text.rpartition(".")[0], key=key)
    return Const(None)


def call_scalar(m: Machine, receiver: Value, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """Methods of strings and numbers; `"...".format(tensor)` reads the tensor."""
    if name == "format":
        for value in (*args, *kwargs.values()):
            protocols.asked(m, value, protocols.FORMAT[1:], (), span)
            for option in options(value):
                if isinstance(option, Tensor):
                    m.emit(HostRead, span, op="format", value=option, text=text)
        return Host(kind="string", inputs=origins(receiver))
    if name == "join" and args and isinstance(receiver, Const):
        return Host(kind="string")
    if isinstance(receiver, Const) and isinstance(receiver.value, str) and name in _PURE:
        plain = [a.value for a in args if isinstance(a, Const)]
        if len(plain) == len(args) and not kwargs:
            try:
                made = getattr(receiver.value, name)(*plain)
            except (TypeError, ValueError):
                return Host(kind="string")
            if isinstance(made, list):
                return m.sequence("list", [Const(x) for x in made[:12]], sized=len(made) <= 12)
            if isinstance(made, tuple):
                return m.sequence("tuple", [Const(x) for x in made])
            return Const(made)
    if name in ("split", "rsplit", "splitlines"):
        return m.sequence("list", [], Host(kind="string"))
    if isinstance(receiver, Const) and receiver.value is None:
        return Unknown(name)
    kind = (
        "bool" if name.startswith(("is", "starts", "ends")) else "string" if isinstance(receiver, (Const, Host)) else ""
    )
    source = receiver.source if isinstance(receiver, Host) else "other"
    return Host(source, kind, inputs=origins(receiver))
