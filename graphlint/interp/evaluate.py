"""Expressions: what they are worth, and the facts that evaluating them leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphlint.fact import HostRead, Keep
from graphlint.interp import attributes, iteration, protocols, subscripts, threads
from graphlint.interp.objects import FunctionValue, Scope
from graphlint.interp.operators import binary, compare, truth, unary
from graphlint.interp.spelling import spelled
from graphlint.lower import tree
from graphlint.value import (
    HELD,
    Const,
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

_PLACED = (Const, Host, Tensor, Unknown, Union)
_NUMBERS = (int, float, bool, complex)
#: Methods that replay a graph, or that objects with a graph replay it in.
_REPLAYING = frozenset(["replay", "run", "step", "forward", "execute"])


def evaluate(m: Machine, node: tree.Expr) -> Value:
    handler = _HANDLERS.get(type(node))
    return handler(m, node) if handler is not None else Unknown()


def _name(m: Machine, node: tree.Name) -> Value:
    scope, name = m.scope, node.id
    value = scope.variables.get(name)
    holder: Scope | None = scope
    if value is None or scope.globals:
        value = m.names.lookup(m, scope, name)
        if value is None:
            return Unknown(name)
        holder = scope.parent
        while holder is not None and name not in holder.variables:
            holder = holder.parent
    if holder is None or not isinstance(value, _PLACED if m.region is None else (*_PLACED, *HELD)):
        return value
    return m.at_place(value, Place(holder.id, name, "global" if holder.is_module else "local"))


def _constant(m: Machine, node: tree.Constant) -> Value:
    return Const(node.value)


def _fstring(m: Machine, node: tree.FString) -> Value:
    places: set[Place] = set()
    for part in node.values:
        value = m.eval(part)
        places |= origins(value)
        read_text(m, value, part, "format")
    return Host(kind="string", inputs=frozenset(places), symbol=node.text)


def read_text(m: Machine, value: Value, node: tree.Expr, op: str) -> None:
    """A value is turned into text: a tensor's content is read by the host."""
    for option in options(value):
        methods = protocols.FORMAT if op == "format" else protocols.TEXT if op == "print" else protocols.TEXT[1:]
        if (own := protocols.own_method(m, option, methods)) is not None:
            m.call(own[1], (Const(""),) if own[0] == "__format__" else (), {}, node.span, own[0])
            continue
        targets = [option]
        if isinstance(option, Instance) and protocols.tells_fields(option):
            targets = list(option.attrs.values())
        elif isinstance(option, Sequence):
            targets = option.items
        elif isinstance(option, Mapping):
            targets = list(option.items.values())
        for target in targets:
            if isinstance(target, Tensor):
                fact = m.emit(HostRead, node.span, op=op, value=target, text=spelled(node))
                m.reads(fact, target)


def _attribute(m: Machine, node: tree.Attribute) -> Value:
    return attributes.get_attribute(m, m.eval(node.value), node.name, node)


def _subscript(m: Machine, node: tree.Subscript) -> Value:
    base = m.eval(node.value)
    return subscripts.get_item(m, base, m.eval(node.index), node)


def _slice(m: Machine, node: tree.Slice) -> Value:
    parts = [m.eval(p) if p is not None else Const(None) for p in (node.lower, node.upper, node.step)]
    return Sequence(kind="slice", items=parts)


def _call(m: Machine, node: tree.Call) -> Value:
    m.tick()
    function = m.eval(node.func)
    args, kwargs = arguments(m, node.args)
    text = spelled(node.func)
    if not isinstance(node.func, tree.Attribute) or node.func.name not in _REPLAYING:
        return m.call(function, args, kwargs, node.span, text)
    saved, m.through = m.through, (*m.through, *_through(m, node.func.value))
    try:
        return m.call(function, args, kwargs, node.span, text)
    finally:
        m.through = saved


def _through(m: Machine, node: tree.Expr) -> tuple[Place, ...]:
    """The places that an expression reads an object from, outermost first."""
    if isinstance(node, tree.Name):
        holder: Scope | None = m.scope
        while holder is not None and node.id not in holder.variables:
            holder = holder.parent
        kind: Any = "global" if holder is not None and holder.is_module else "local"
        return (Place(holder.id, node.id, kind),) if holder is not None else ()
    if isinstance(node, (tree.Attribute, tree.Subscript)):
        before = _through(m, node.value)
        with m.quiet_reading():
            owner = m.eval(node.value)
        if isinstance(owner, Instance) and isinstance(node, tree.Attribute):
            return (*before, Place(owner.id, node.name, "attribute"))
        return (*before, Place(owner.id, "*", "item")) if isinstance(owner, (Sequence, Mapping)) else before
    return ()


def arguments(m: Machine, nodes: tuple[tree.Arg, ...]) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Positional and keyword values of a call; `*` and `**` of unknown length leave a marker under the key "*"."""
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for arg in nodes:
        value = m.eval(arg.value)
        if arg.star == "*":
            items = iteration.elements(m, value)
            if isinstance(value, (Sequence, Mapping)) and (not isinstance(value, Sequence) or value.rest is None):
                args += items
                if isinstance(value, Sequence) and value.kind == "range" and value.length != len(items):
                    kwargs["*"] = value
            else:
                args += items if isinstance(value, Sequence) else []
                kwargs["*"] = value
        elif arg.star == "**":
            value = iteration.either_mapping(m, value)
            if isinstance(value, Mapping):
                kwargs |= {k: v for k, v in value.items.items() if isinstance(k, str)}
                if value.rest is not None:
                    kwargs["*"] = value.rest
            else:
                kwargs["*"] = value
        elif arg.keyword is not None:
            kwargs[arg.keyword] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _items(m: Machine, nodes: tuple[tree.Expr, ...], kind: str) -> Value:
    items: list[Value] = []
    rest: Value | None = None
    for node in nodes:
        if isinstance(node, tree.Starred):
            value = m.eval(node.value)
            items += iteration.elements(m, value)
            if not isinstance(value, Sequence) or value.length is None:
                rest = Unknown()
        else:
            items.append(m.eval(node))
    return m.sequence(kind, items, rest)


def _tuple(m: Machine, node: tree.TupleExpr) -> Value:
    return _items(m, node.items, "tuple")


def _list(m: Machine, node: tree.ListExpr) -> Value:
    return _items(m, node.items, "list")


def _set(m: Machine, node: tree.SetExpr) -> Value:
    return _items(m, node.items, "set")


def _dict(m: Machine, node: tree.DictExpr) -> Value:
    result = m.mapping()
    for key_node, value_node in node.items:
        if key_node is None:
            value = iteration.either_mapping(m, m.eval(value_node))
            if isinstance(value, Mapping):
                result.items |= value.items
                result.rest = value.rest if result.rest is None else result.rest
            else:
                result.rest = Unknown()
            continue
        key, value = m.eval(key_node), m.eval(value_node)
        if isinstance(key, Const) and key.value.__hash__ is not None:
            result.items[key.value] = value
        else:
            result.rest = value if result.rest is None else join(result.rest, value)
    return result


def _binop(m: Machine, node: tree.BinOp) -> Value:
    return binary(m, node.op, m.eval(node.left), m.eval(node.right), node)


def _boolop(m: Machine, node: tree.BoolOp) -> Value:
    results: list[Value] = []
    opened = 0
    try:
        for index, part in enumerate(node.values):
            value = m.eval(part)
            last = index == len(node.values) - 1
            if isinstance(value, Const) and value.value is (node.op == "or"):
                return value  # whatever the parts before it are, `x and False` is false
            if last:
                results.append(value)
                break
            known = truth(m, value, node.op, part)
            if known is not None and known == (node.op == "or"):
                results.append(value)
                break
            if known is None:
                results.append(value)
                m.conditions += 1
                opened += 1
    finally:
        m.conditions -= opened
    return join(*results)


def _compare(m: Machine, node: tree.Compare) -> Value:
    left = m.eval(node.left)
    parts: list[Value] = []
    for index, (op, comparator) in enumerate(zip(node.ops, node.comparators, strict=True)):
        right = m.eval(comparator)
        value = compare(m, op, left, right, node)
        if index < len(node.ops) - 1:  # `a < x < b` asks bool() of the first comparison
            truth(m, value, "comparison", node)
        parts.append(value)
        left = right
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(p, Const) for p in parts):
        return Const(all(p.value for p in parts if isinstance(p, Const)))
    return parts[-1]


def _ifexp(m: Machine, node: tree.IfExp) -> Value:
    from graphlint.interp.flow import if_expression

    return if_expression(m, node)


def _lambda(m: Machine, node: tree.Lambda) -> Value:
    return FunctionValue(node=node, scope=m.scope)


def _comprehension(m: Machine, node: tree.Comprehension) -> Value:
    result: Value = m.mapping() if node.kind == "dict" else m.sequence(node.kind, [])
    inner = Scope(m.scope.module, parent=m.scope)
    activation = m.stack[-1]
    saved = activation.scope
    activation.scope = inner
    try:
        _clauses(m, node, 0, result)
    finally:
        activation.scope = saved
    return result


def _clauses(m: Machine, node: tree.Comprehension, depth: int, result: Value) -> None:
    from graphlint.interp.execute import assign

    if depth == len(node.clauses):
        value = m.eval(node.element)
        if isinstance(result, Mapping):
            key = subscripts.as_key(m.eval(node.key)) if node.key is not None else Unknown()
            if isinstance(value, Tensor):
                text = spelled(node.element)
                m.emit(Keep, node.element.span, container=result, value=value, how="collect", text=text, key=key)
            if isinstance(key, Const) and key.value.__hash__ is not None:
                result.items[key.value] = value
            else:
                result.rest = value if result.rest is None else join(result.rest, value)
                result.keys = key
        elif isinstance(result, Sequence):
            result.items.append(value)
            if isinstance(value, Tensor):
                m.emit(
                    Keep, node.element.span, container=result, value=value, how="collect", text=spelled(node.element)
                )
        return
    clause = node.clauses[depth]
    source = m.eval(clause.iter)
    items, exact = iteration.iterate(m, source, clause.iter)
    items = m.rounds(items, exact)
    m.loop_ids += 1
    loop = m.loop_ids
    saved = m.loops
    filtered = last = False
    try:
        for index, item in enumerate(items):
            m.tick()
            m.loops = (*saved, (loop, min(index, 1)))
            assign(m, clause.target, item, clause.target.span)
            skip = False
            for test in clause.ifs:
                known = truth(m, m.eval(test), "comprehension", test)
                if known is False:
                    skip = True
                    break
                filtered = filtered or known is None
            if not skip:
                _clauses(m, node, depth + 1, result)
            last = not skip and depth + 1 == len(node.clauses)
    finally:
        m.loops = saved
    cut = iteration.shortened(source, items)
    if (not exact or filtered or cut) and isinstance(result, Sequence) and result.items and result.rest is None:
        # Of unknown length: the items seen stand for all.
        result.rest = result.items[-1]
        if cut and last and len(result.items) > 1:
            result.items.pop()  # the last of the source, which stands further back
        result.placed = result.placed and not filtered
    elif cut and isinstance(result, Mapping) and result.items and result.rest is None:
        result.rest = next(reversed(result.items.values()))


def _starred(m: Machine, node: tree.Starred) -> Value:
    return m.eval(node.value)


def _await(m: Machine, node: tree.Await) -> Value:
    value = m.eval(node.value)
    return threads.awaited(m, value, node.span)


def _yield(m: Machine, node: tree.Yield) -> Value:
    value = m.eval(node.value) if node.value is not None else Const(None)
    activation = m.stack[-1]
    if node.many:
        activation.yields += iteration.elements(m, value)
        return Unknown()
    if activation.on_yield is not None:
        activation.on_yield(value)
        return Unknown()
    if isinstance(value, Tensor):
        m.emit(Keep, node.span, container=Unknown("generator"), value=value, how="yield")
    activation.yields.append(value)
    return Unknown()


def _named(m: Machine, node: tree.NamedExpr) -> Value:
    from graphlint.interp.execute import assign

    value = m.eval(node.value)
    assign(m, node.target, value, node.span)
    return value


_HANDLERS: dict[type, Callable[[Machine, Any], Value]] = {
    tree.Name: _name, tree.Constant: _constant, tree.FString: _fstring, tree.Attribute: _attribute,
    tree.Call: _call, tree.Subscript: _subscript, tree.Slice: _slice, tree.TupleExpr: _tuple, tree.ListExpr: _list,
    tree.SetExpr: _set, tree.DictExpr: _dict, tree.BinOp: _binop, tree.UnaryOp: unary, tree.BoolOp: _boolop,
    tree.Compare: _compare, tree.IfExp: _ifexp, tree.Lambda: _lambda, tree.Comprehension: _comprehension,
    tree.Starred: _starred, tree.Await: _await, tree.Yield: _yield, tree.NamedExpr: _named,
}  # fmt: skip
