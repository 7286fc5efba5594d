"""Python's builtins and a few standard modules, as far as a capture cares."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.fact import HostRead, Op, Truth
from graphlint.interp import (
    attributes,
    evaluate,
    iteration,
    iterators,
    operators,
    protocols,
    subscripts,
)
from graphlint.interp.introspection import callable_, getattr_, hasattr_, isinstance_, setattr_, type_, vars_
from graphlint.interp.objects import BoundMethod, FunctionValue, Partial
from graphlint.interp.tensors import dim_value
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import (
    Const,
    External,
    Host,
    Instance,
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
_CONVERSIONS = {"int": int, "float": float, "bool": bool, "complex": complex, "str": str}


def call_builtin(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    first = args[0] if args else None
    if (answer := protocols.builtin(m, name, args, span)) is not None:
        return answer
    if name in _CONVERSIONS:
        return _convert(m, name, first, span, text)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(m, args, kwargs, span, text)
    if name in ("Exception", "BaseException") or name.endswith(("Error", "Warning")):
        return m.instance_of(External(f"builtins.{name}"), span)
    if name in ("object",):
        return m.instance_of(External("builtins.object"), span)
    return Unknown(f"{name}()")


def _convert(m: Machine, name: str, value: Value | None, span: Span, text: str) -> Value:
    if value is None:
        return Const(_CONVERSIONS[name]())
    kind = {"bool": "bool", "str": "string"}.get(name, "number")
    for option in options(value):
        if isinstance(option, Tensor):
            op = "format" if name == "str" else name
            if name == "bool":
                fact: object = m.emit(HostRead, span, op="bool", value=option, text=f"{name}(...)")
            else:
                fact = m.emit(HostRead, span, op=op, value=option, text=f"{name}(...)")
            m.reads(fact, option)  # type: ignore[arg-type]
            return Host("read", kind, m.location(span), origins(value))
    if isinstance(value, Const):
        try:
            return Const(_CONVERSIONS[name](value.value), origins(value))
        except Exception:
            return Host(kind=kind, inputs=origins(value))
    if isinstance(value, Host):
        return Host(value.source, kind, value.read_at, origins(value), value.symbol)
    if name == "bool":
        node = tree.Name(span, text)
        known = operators.truth(m, value, "if", node)
        return Host(kind="bool", inputs=origins(value)) if known is None else Const(known)
    if isinstance(value, Unknown):
        return Unknown(value.hint, value.inputs)
    return Host(kind=kind, inputs=origins(value))


def _len(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    value = args[0] if args else Unknown()
    match value:
        case Tensor():
            return dim_value(value, 0)
        case Sequence() if value.length is not None and not m.has_grown(value.id):
            return Const(value.length, _size(value))
        case Mapping(items=mapping_items, rest=None) if not m.has_grown(value.id):
            return Const(len(mapping_items), _size(value))
        case Const(value=str(string)):
            return Const(len(string))
        case Instance():
            method = attributes.find_method(m, value, "__len__")
            if method is not None:
                return m.call(method, (), {}, span, "__len__")
            if "$items" in value.attrs:
                return _len(m, (value.attrs["$items"],), {}, span, text)
        case Sequence() | Mapping():
            # While it grows, no two of its lengths are equal.
            return Host("len", symbol=None if m.has_grown(value.id) else f"len{value.id}", inputs=_size(value))
    return Host("len", inputs=origins(value))


def _size(container: Sequence | Mapping) -> frozenset[Place]:
    """Where the length of a container that may grow is read from."""
    if isinstance(container, Sequence) and container.kind not in ("list", "deque", "set"):
        return frozenset()
    return frozenset({Place(container.id, "len", "item")})


def _range(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    for value in args:
        for option in options(value):
            if isinstance(option, Tensor):
                fact = m.emit(HostRead, span, op="range", value=option, text="range(...)")
                m.reads(fact, option)
    args = tuple([protocols.asked(m, a, ("__index__",), (), span) or a for a in args])
    return Sequence(kind="range", items=list(args))


def compare_tensors(m: Machine, op: str, values: list[Value], span: Span, text: str) -> None:
    """Builtin min, max and sorted ask bool() of comparisons between the items."""
    tensors = [o for v in values for o in options(v) if isinstance(o, Tensor)]
    if (tensors and len(values) > 1) or (tensors and op in ("any", "all")):
        chosen = next((t for t in tensors if t.device == "cuda"), tensors[0])
        fact = m.emit(Truth, span, op=op, value=chosen, text=text)
        m.reads(fact, *tensors)


def _reduce(op: str) -> Callable[[Machine, Args, Kwargs, Span, str], Value]:
    def handler(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
        values = list(args)
        if len(args) == 1:
            if isinstance(args[0], Tensor):
                fact = m.emit(Truth, span, op=op, value=args[0], text=f"{op}(...)")
                m.reads(fact, args[0])
                return Host("read", "bool", m.location(span)) if op in ("any", "all") else args[0]
            values = _items(m, args[0], span, op)
            if isinstance(args[0], Sequence) and args[0].rest is not None:
                values = [*values, args[0].rest]
        key = kwargs.get("key")
        compared = values
        if isinstance(key, (FunctionValue, BoundMethod, Partial, External)) and len(values) > 1:
            compared = [m.call(key, (v,), {}, span, "key") for v in values[:2]]
        if key is None or compared is not values:
            compare_tensors(m, op, compared, span, f"{op}(...)")
        inputs = frozenset().union(*(origins(v) for v in values)) if values else frozenset()
        if op in ("any", "all"):
            read = next(
                (
                    o
                    for v in values
                    for o in options(v)
                    if isinstance(o, (Tensor, Host)) and (isinstance(o, Tensor) or o.source == "read")
                ),
                None,
            )
            if read is not None:
                return Host("read", "bool", m.location(span), inputs)
            return Host(kind="bool", inputs=inputs)
        if op == "sorted":
            given = args[0] if args else None
            if isinstance(given, Sequence) and given.length is None:
                return iteration.listed(m, "list", given)
            return m.sequence("list", _sorted(values, kwargs))
        plain = [v.value for v in values if isinstance(v, Const) and isinstance(v.value, (int, float))]
        cut = len(args) == 1 and isinstance(args[0], Sequence) and args[0].length is None
        if plain and len(plain) == len(values) and "key" not in kwargs and not cut:
            return Const(min(plain) if op == "min" else max(plain), inputs)
        tensor = next((o for v in values for o in options(v) if isinstance(o, Tensor)), None)
        if tensor is not None:
            return tensor
        hosts = [v for v in values if isinstance(v, Host)]
        if hosts:
            read_at = next((h.read_at for h in hosts if h.read_at), None)
            return Host("read" if read_at else hosts[0].source, hosts[0].kind, read_at, inputs)
        return join(*values) if values else Unknown()

    return handler


def _items(m: Machine, value: Value, span: Span, text: str) -> list[Value]:
    """What a builtin function sees that goes through `value`."""
    if protocols.own_method(m, value, ("__iter__", "__getitem__")) is not None:
        return iteration.iterate(m, value, tree.Name(span, text))[0]
    return iteration.elements(m, value)


def _sorted(values: list[Value], kwargs: Kwargs) -> list[Value]:
    plain = [v.value for v in values if isinstance(v, Const) and isinstance(v.value, (int, float))]
    reverse = kwargs.get("reverse")
    if len(plain) == len(values) and "key" not in kwargs:
        return [Const(x) for x in sorted(plain, reverse=isinstance(reverse, Const) and bool(reverse.value))]
    return values


def _sum(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    values = _items(m, args[0], span, "sum") if args else []
    tensor = next((o for v in values for o in options(v) if isinstance(o, Tensor)), None)
    if tensor is not None:
        node = tree.Name(span, text)
        return operators.binary(m, "+", tensor, Const(0), node)
    plain = [v.value for v in values if isinstance(v, Const) and isinstance(v.value, (int, float))]
    if values and len(plain) == len(values) and isinstance(args[0], Sequence) and args[0].length is not None:
        return Const(sum(plain))
    inputs = frozenset().union(*(origins(v) for v in values)) if values else frozenset()
    return Host("other", inputs=inputs)


def _print(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    node = tree.Name(span, "print")
    for value in args:
        evaluate.read_text(m, value, node, "print")
    m.emit(Op, span, name="builtins.print", args=args, kwargs=kwargs, text="print")
    return Const(None)


def _repr(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    for value in args:
        evaluate.read_text(m, value, tree.Name(span, "repr"), "repr")
    return Host(kind="string", inputs=origins(args[0]) if args else frozenset())


def _collection(kind: str) -> Callable[[Machine, Args, Kwargs, Span, str], Value]:
    def handler(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
        if not args:
            return m.sequence(kind, [])
        value = args[0]
        if isinstance(value, Tensor):
            row = iteration.elements(m, value)[0]
            return m.sequence(kind, [], row)
        if isinstance(value, Sequence):
            made = iteration.listed(m, kind, value)
            return iteration.distinct(made) if kind == "set" else made
        if isinstance(value, Mapping):
            keys: list[Value] = [subscripts.of_key(k) for k in value.items]
            return m.sequence(kind, keys, Host("loop", kind="") if value.rest is not None else None)
        items, exact = iteration.iterate(m, value, tree.Name(span, text))
        if exact and not iteration.shortened(value, items):
            return m.sequence(kind, items)
        return m.sequence(kind, [], items[-1] if items else Unknown())

    return handler


def _dict(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    result = m.mapping({k: v for k, v in kwargs.items() if k != "*"})
    if args and isinstance(args[0], Mapping):
        result.items = {**args[0].items, **result.items}
        result.rest = args[0].rest
    elif args:
        cut = isinstance(args[0], Sequence) and args[0].length is None
        for item in iteration.elements(m, args[0]):
            if isinstance(item, Sequence) and len(item.items) == 2:
                key, value = item.items
                if isinstance(key, Const) and key.value.__hash__ is not None:
                    result.items[key.value] = value
                    continue
                result.rest = value if result.rest is None else join(result.rest, value)
            else:
                result.rest = result.rest or Unknown()
        if cut and result.items and result.rest is None:
            result.rest = next(reversed(result.items.values()))
    if "*" in kwargs:
        result.rest = result.rest or Unknown()
    return result


def _fromkeys(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """`dict.fromkeys(keys, value)`: one value under each key."""
    value = args[1] if len(args) > 1 else Const(None)
    keys, exact = iteration.iterate(m, args[0], tree.Name(span, text)) if args else ([], True)
    exact = exact and not (args and iteration.shortened(args[0], keys))
    result = m.mapping()
    for key in map(subscripts.as_key, keys):
        if isinstance(key, Const) and key.value.__hash__ is not None:
            result.items[key.value] = value
        else:
            result.keys, exact = key, False
    result.rest = None if exact else value
    return result


def _enumerate(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    items, exact = iteration.iterate(m, args[0], tree.Name(span, text)) if args else ([], True)
    cut = bool(args) and iteration.shortened(args[0], items)
    whole = args[0].items if cut and isinstance(args[0], Sequence) and args[0].kind != "range" else []
    known = len(items) if exact and not cut else 1
    pairs: list[Value] = []
    for i, item in enumerate(items):
        own = i < known or (i < len(whole) and whole[i] is item)
        pairs.append(m.sequence("tuple", [Const(i) if own else Host("loop"), item]))
    if exact:
        return m.sequence("generator", pairs, sized=not cut)
    return m.sequence("generator", pairs[:1], pairs[-1] if pairs else None)


def _zip(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if not args:
        return m.sequence("generator", [])
    rows, exact = iteration.rows(m, args, tree.Name(span, text))
    m.emit(Op, span, name="builtins.zip", args=args, text=text)  # which looks at all of them
    made: list[Value] = [m.sequence("tuple", row) for row in rows]
    cut = all(iteration.shortened(a, made) for a in args)
    return m.sequence("generator", made, None if exact or not made else made[-1], sized=not (exact and cut))


def _map(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) < 2:
        return Unknown()
    items, exact = iteration.iterate(m, args[1], tree.Name(span, text))
    results = [m.call(args[0], (i,), {}, span, text) for i in items[:3]]
    cut = iteration.shortened(args[1], results)
    return m.sequence("generator", results, None if exact or not results else results[-1], sized=not (exact and cut))


def _filter(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if len(args) < 2:
        return Unknown()
    items, _ = iteration.iterate(m, args[1], tree.Name(span, text))
    for item in items[:2]:
        if not isinstance(args[0], Const):
            operators.truth(m, m.call(args[0], (item,), {}, span, text), "comprehension", tree.Name(span, text))
    return m.sequence("generator", items, items[-1] if items else None)


def _reversed(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    if args and isinstance(args[0], Sequence) and args[0].rest is None and args[0].kind != "range":
        return m.sequence("list", list(reversed(args[0].items)), sized=args[0].sized)
    return args[0] if args else Unknown()


def _abs(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    value = args[0] if args else Unknown()
    if isinstance(value, Tensor):
        return operators.binary(m, "+", value, Const(0), tree.Name(span, text))
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(abs(value.value), origins(value))
    return Host(getattr(value, "source", "other"), inputs=origins(value))


def _round(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    value = args[0] if args else Unknown()
    for option in options(value):
        if isinstance(option, Tensor):
            m.emit(HostRead, span, op="round", value=option, text="round(...)")
            return Host("read", read_at=m.location(span))
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return Const(round(value.value), origins(value))
    return Host(getattr(value, "source", "other"), inputs=origins(value))


def _host(kind: str) -> Callable[[Machine, Args, Kwargs, Span, str], Value]:
    def handler(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
        inputs = frozenset().union(*(origins(a) for a in args)) if args else frozenset()
        return Host(kind=kind, inputs=inputs)

    return handler


def _slice(m: Machine, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    none = Const(None)
    parts: list[Value] = [none, *args, none] if len(args) == 1 else [*args, *[none] * (3 - len(args))]
    return Sequence(kind="slice", items=parts[:3])


_HANDLERS: dict[str, Callable[[Machine, Args, Kwargs, Span, str], Value]] = {
    "len": _len, "range": _range, "min": _reduce("min"), "max": _reduce("max"), "any": _reduce("any"),
    "all": _reduce("all"), "sorted": _reduce("sorted"), "sum": _sum, "print": _print, "repr": _repr, "ascii": _repr,
    "format": _repr, "list": _collection("list"), "tuple": _collection("tuple"), "set": _collection("set"),
    "frozenset": _collection("set"), "dict": _dict, "dict.fromkeys": _fromkeys, "enumerate": _enumerate, "zip": _zip,
    "map": _map,
    "filter": _filter, "reversed": _reversed, "next": iterators.next_, "iter": iterators.iter_, "getattr": getattr_,
    "hasattr": hasattr_, "setattr": setattr_, "isinstance": isinstance_, "issubclass": _host("bool"),
    "callable": callable_, "type": type_,
    "abs": _abs, "round": _round, "vars": vars_, "id": _host("number"), "hash": _host("number"), "open": _host(""),
    "divmod": _host("number"), "pow": _host("number"), "ord": _host("number"), "chr": _host("string"), "slice": _slice,
    "globals": _host(""), "locals": _host(""), "input": _host("string"), "bytes": _host("string"),
}  # fmt: skip
