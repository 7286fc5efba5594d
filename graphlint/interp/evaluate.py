"""Expressions: what they are worth, and the facts that evaluating them leaves behind."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphlint.fact import HostRead, Keep, Operator, Truth
from graphlint.interp import attributes, subscripts
from graphlint.interp.objects import ClassValue, ExternalMethod, FunctionValue, Scope
from graphlint.knowledge.shapes import broadcast, matmul
from graphlint.lower import tree
from graphlint.value import (
    Const,
    Device,
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
    tensors,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
#: What awaits a job of another thread.
FUTURES = ("concurrent.futures.Future", "asyncio.Future")
_PLACED = (Const, Host, Tensor, Unknown, Union)
#: Values of which one object stands for one object of the program.
_SAME = (ClassValue, FunctionValue)
_NUMBERS = (int, float, bool, complex)


def spelled(node: tree.Expr, limit: int = 60) -> str:
    """How the source spells an expression, short enough for a message."""
    text = _spell(node)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _spell(node: tree.Expr) -> str:
    match node:
        case tree.Name(id=name):
            return name
        case tree.Attribute(value=value, name=name):
            return f"{_spell(value)}.{name}"
        case tree.Call(func=func, args=args):
            return f"{_spell(func)}({'...' if args else ''})"
        case tree.Subscript(value=value, index=index):
            return f"{_spell(value)}[{_spell(index)}]"
        case tree.Constant(value=value):
            return repr(value) if len(repr(value)) < 20 else "..."
        case tree.Slice(lower=lower, upper=upper):
            return f"{_spell(lower) if lower else ''}:{_spell(upper) if upper else ''}"
        case tree.TupleExpr(items=items):
            return ", ".join(_spell(i) for i in items[:4])
        case tree.BinOp(op=op, left=left, right=right):
            return f"{_spell(left)} {op} {_spell(right)}"
        case tree.UnaryOp(op=op, operand=operand):
            return f"{op}{' ' if op == 'not' else ''}{_spell(operand)}"
        case tree.BoolOp(op=op, values=values):
            return f" {op} ".join(_spell(v) for v in values)
        case tree.Compare(left=left, ops=ops, comparators=comparators):
            return _spell(left) + "".join(f" {o} {_spell(c)}" for o, c in zip(ops, comparators, strict=False))
        case tree.FString():
            return 'f"..."'
        case _:
            return "..."


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
    if holder is None or not isinstance(value, _PLACED):
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
        targets = [option]
        if isinstance(option, Sequence):
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
    return m.call(function, args, kwargs, node.span, spelled(node.func))


def arguments(m: Machine, nodes: tuple[tree.Arg, ...]) -> tuple[tuple[Value, ...], dict[str, Value]]:
    """Positional and keyword values of a call; `*` and `**` of unknown length leave a marker under the key "*"."""
    args: list[Value] = []
    kwargs: dict[str, Value] = {}
    for arg in nodes:
        value = m.eval(arg.value)
        if arg.star == "*":
            items = subscripts.elements(m, value)
            if isinstance(value, (Sequence, Mapping)) and (not isinstance(value, Sequence) or value.rest is None):
                args += items
            else:
                args += items if isinstance(value, Sequence) else []
                kwargs["*"] = value
        elif arg.star == "**":
            value = subscripts.either_mapping(m, value)
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
            items += subscripts.elements(m, value)
            if not isinstance(value, Sequence) or value.rest is not None:
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
            value = subscripts.either_mapping(m, m.eval(value_node))
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


def binary(m: Machine, op: str, left: Value, right: Value, node: tree.Node) -> Value:
    """`left op right`; tensors give a new tensor, known numbers a known number."""
    if isinstance(left, Union) or isinstance(right, Union):
        if any(isinstance(o, Tensor) for v in (left, right) for o in options(v)):
            picked = [next((o for o in options(v) if isinstance(o, Tensor)), options(v)[0]) for v in (left, right)]
            return binary(m, op, picked[0], picked[1], node)
        return Host(inputs=origins(left) | origins(right), source=_source(left, right))
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _tensor_operator(m, op, left, right, node)
    if isinstance(left, Const) and isinstance(right, Const):
        if isinstance(left.value, (*_NUMBERS, str)) and isinstance(right.value, (*_NUMBERS, str, tuple)):
            try:
                if op not in ("**", "<<") or (isinstance(right.value, _NUMBERS) and abs(right.value) < 64):
                    folded = _BINARY[op](left.value, right.value)
                    if not isinstance(folded, (str, int)) or len(str(folded)) < 200:
                        return Const(folded, origins(left) | origins(right))
            except Exception:
                pass
        return Host(inputs=origins(left) | origins(right))
    if isinstance(left, Sequence) and isinstance(right, Sequence) and op == "+":
        rest = left.rest or right.rest
        return m.sequence(left.kind, [*left.items, *right.items], rest)
    if isinstance(left, Sequence) and op == "*":
        return m.sequence(left.kind, left.items, left.rest)
    if isinstance(left, Mapping) and isinstance(right, Mapping) and op == "|":
        return m.mapping({**left.items, **right.items}, left.rest or right.rest)
    if isinstance(left, External) and isinstance(right, (External, Const)) and op == "|":
        return Unknown()
    if isinstance(left, Const) and isinstance(left.value, str) and op == "%":
        values = right.items if isinstance(right, Sequence) else [right]
        for value in values:
            if isinstance(value, Tensor):
                m.emit(HostRead, node.span, op="format", value=value, text="%")
    if isinstance(left, Unknown) and isinstance(right, Unknown):
        return Unknown(left.hint)
    if isinstance(left, (Host, Const, Unknown)) and isinstance(right, (Host, Const, Unknown)):
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return Unknown(left.hint if isinstance(left, Unknown) else getattr(right, "hint", ""))
        read_at = next((v.read_at for v in (left, right) if isinstance(v, Host) and v.read_at is not None), None)
        kind = "string" if any(isinstance(v, Host) and v.kind == "string" for v in (left, right)) else "number"
        return Host(_source(left, right), kind, read_at, origins(left) | origins(right), _symbol(op, left, right))
    return Unknown()


def _symbol(op: str, left: Value, right: Value) -> str | None:
    parts = [str(v.value) if isinstance(v, Const) else v.symbol if isinstance(v, Host) else None for v in (left, right)]
    return None if None in parts or sum(len(p or "") for p in parts) > 80 else f"({parts[0]}{op}{parts[1]})"


def _source(*values: Value) -> str:
    sources = [o.source for v in values for o in options(v) if isinstance(o, Host)]
    for source in ("read", "random", "time", "loop", "shape", "param"):
        if source in sources:
            return source
    return sources[0] if sources else "other"


def _tensor_operator(m: Machine, op: str, left: Value, right: Value, node: tree.Node) -> Value:
    both = [v for v in (left, right) if isinstance(v, Tensor)]
    shapes = [v.shape if isinstance(v, Tensor) else () for v in (left, right)]
    shape = matmul(shapes[0], shapes[1]) if op == "@" else broadcast(shapes[0], shapes[1])
    compared = op in _COMPARE or op in ("in",)
    dtype = "bool" if compared else (both[0].dtype if len({v.dtype for v in both}) == 1 else None)
    if not compared and len(both) == 1 and op == "/" and dtype in ("int64", "int32", "bool"):
        dtype = "float32"
    # A 0-dim CPU tensor mixes with CUDA ones: the result is where the others are.
    devices = {v.device for v in both}
    device: Device = "cuda" if "cuda" in devices else "?" if "?" in devices else "cpu"
    if any(isinstance(v, Unknown) for v in (left, right)) and device == "cpu":
        device = "?"
    result = m.tensor(
        node.span, device=device, shape=shape, dtype=dtype,
        requires_grad=any(v.requires_grad for v in both), grad_graph=any(v.requires_grad or v.grad_graph for v in both),
        sure=all(v.sure for v in both),
    )  # fmt: skip
    fact = m.emit(Operator, node.span, op=op, operands=(left, right), result=result)
    m.reads(fact, left, right)
    note_output(m, result, fact)
    return result


def note_output(m: Machine, result: Value, fact: Any) -> None:
    """Memory made inside a capture belongs to the graph."""
    if m.region is not None:
        for option in options(result):
            if isinstance(option, Tensor) and option.storage.born is m.region:
                m.region.outputs.setdefault(option.storage, fact)


def _unary(m: Machine, node: tree.UnaryOp) -> Value:
    value = m.eval(node.operand)
    if node.op == "not":
        known = truth(m, value, "not", node.operand)
        if known is not None:
            return Const(not known, origins(value))
        return Host(_source(value), "bool", inputs=origins(value))
    if isinstance(value, Tensor):
        return _tensor_operator(m, node.op, value, Const(0), node)
    if isinstance(value, Const) and isinstance(value.value, _NUMBERS):
        try:
            folded = -value.value if node.op == "-" else ~value.value if node.op == "~" else +value.value  # type: ignore[operator]
            return Const(folded, origins(value))
        except TypeError:
            return Host(inputs=origins(value))
    if isinstance(value, Host):
        symbol = f"{node.op}{value.symbol}" if value.symbol else None
        return Host(value.source, value.kind, value.read_at, origins(value), symbol)
    return value if isinstance(value, Unknown) else Host(inputs=origins(value))


def truth(m: Machine, value: Value, op: str, node: tree.Expr) -> bool | None:
    """bool(value): True or False if known. A tensor, or a number read from one, leaves a Truth fact."""
    results: set[bool | None] = set()
    for option in options(value):
        results.add(_truth_of(m, option, op, node))
    return results.pop() if len(results) == 1 else None


def _truth_of(m: Machine, value: Value, op: str, node: tree.Expr) -> bool | None:
    known: bool | None = None
    match value:
        case Const(value=constant):
            known = bool(constant) if constant is not Ellipsis else True
        case Sequence(items=items, rest=rest):
            known = True if items else (False if rest is None else None)
        case Mapping(items=mapping_items, rest=rest):
            known = True if mapping_items else (False if rest is None else None)
        case Instance():
            known = True if attributes.has_default_truth(m, value) else None
        case Tensor():
            fact = m.emit(Truth, node.span, op=op, value=value, text=spelled(node))
            m.reads(fact, value)
            return None
        case Host():
            m.emit(Truth, node.span, op=op, value=value, text=spelled(node))
            return None
        case External() | FunctionValue():
            known = True
        case Unknown() | ExternalMethod():
            # What hangs on an object that was not read may be a method, or a setting of any value.
            return None
        case _:
            known = True
    if origins(value) and m.region is not None:
        m.emit(Truth, node.span, op=op, value=value, decided=known, text=spelled(node))
    return known


def _boolop(m: Machine, node: tree.BoolOp) -> Value:
    results: list[Value] = []
    opened = 0
    try:
        for index, part in enumerate(node.values):
            value = m.eval(part)
            last = index == len(node.values) - 1
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


def compare(m: Machine, op: str, left: Value, right: Value, node: tree.Compare) -> Value:
    if op in ("is", "is not"):
        known = _identical(left, right)
        inputs = origins(left) | origins(right)
        return Host(kind="bool", inputs=inputs) if known is None else Const(known == (op == "is"), inputs)
    if op in ("in", "not in"):
        return _contains(m, op, left, right, node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if op in ("==", "!=") and any(isinstance(v, Const) and v.value is None for v in (left, right)):
            return Const(op == "!=")
        return _tensor_operator(m, op, left, right, node)
    inputs = origins(left) | origins(right)
    if isinstance(left, Const) and isinstance(right, Const):
        try:
            return Const(bool(_COMPARE[op](left.value, right.value)), inputs)
        except Exception:
            return Host(kind="bool", inputs=inputs)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and left.kind == "shape" and op in ("==", "!="):
        return Host("shape", "bool")
    if isinstance(left, Host) and isinstance(right, Host) and left.symbol and left.symbol == right.symbol:
        if op in ("==", "<=", ">="):
            return Const(True)
        if op in ("!=", "<", ">"):
            return Const(False)
    if isinstance(left, External) and isinstance(right, External) and op in ("==", "!="):
        return Const((left.name == right.name) == (op == "=="))
    tensor = next((o for v in (left, right) for o in options(v) if isinstance(o, Tensor)), None)
    if tensor is not None:
        return _tensor_operator(m, op, tensor, right if tensor is not right else left, node)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return Unknown(left.hint if isinstance(left, Unknown) else "")
    read_at = next((o.read_at for v in (left, right) for o in options(v) if isinstance(o, Host) and o.read_at), None)
    return Host(_source(left, right), "bool", read_at, inputs)


def _identical(left: Value, right: Value) -> bool | None:
    results: set[bool | None] = set()
    for a in options(left):
        for b in options(right):
            results.add(_identical_one(a, b))
    return results.pop() if len(results) == 1 else None


def _identical_one(a: Value, b: Value) -> bool | None:
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value is b.value or (type(a.value) is type(b.value) and a.value == b.value)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Const) and one.value is None:
            return (
                None
                if isinstance(other, (Unknown, Host)) and not (isinstance(other, Host) and other.kind)
                else (None if isinstance(other, Unknown) else False)
            )
    if isinstance(a, (Unknown, Host)) or isinstance(b, (Unknown, Host)):
        return None
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return None if a.storage is b.storage else False
    if isinstance(a, External) and isinstance(b, External):
        return a.name == b.name
    return a is b


def _lacks(sequence: Sequence, wanted: Const) -> bool:
    """True if all that a sequence of unknown length can hold is known, and is something else."""
    held = (*sequence.items, sequence.rest)
    return all(isinstance(i, Const) and i.value != wanted.value for i in held)


def _contains(m: Machine, op: str, left: Value, right: Value, node: tree.Compare) -> Value:
    if isinstance(right, Tensor):
        fact = m.emit(Truth, node.span, op="in", value=right, text=spelled(node))
        m.reads(fact, right, left)
        return Host("read", "bool", m.location(node.span))
    if isinstance(left, Tensor) and isinstance(right, Sequence) and right.kind in ("list", "tuple"):
        if any(isinstance(i, (Tensor, Const, Host)) for i in right.items):
            fact = m.emit(Truth, node.span, op="in", value=left, text=spelled(node))
            m.reads(fact, left)
        return Host("read", "bool", m.location(node.span))
    if isinstance(right, Union) and all(isinstance(o, Mapping) for o in right.options):
        answers = [_contains(m, op, left, o, node) for o in right.options]
        alike = all(isinstance(a, Const) and a.value == getattr(answers[0], "value", None) for a in answers)
        return answers[0] if alike else Host(kind="bool", inputs=origins(left))
    if isinstance(right, Mapping):
        key = subscripts.as_key(left)
        known = isinstance(key, Const) and key.value.__hash__ is not None
        if isinstance(key, Const) and known and (right.rest is None or key.value in right.items):
            return Const((key.value in right.items) == (op == "in"))
        if m.region is not None and right.rest is not None and _numbered(key, right):
            return Const(op == "in", origins(left))
    if isinstance(left, Const):
        if isinstance(right, Sequence) and right.rest is None and all(isinstance(i, Const) for i in right.items):
            return Const(any(i.value == left.value for i in right.items if isinstance(i, Const)) == (op == "in"))
        if isinstance(right, Sequence) and isinstance(right.rest, Const) and _lacks(right, left):
            return Const(op == "not in")
        if isinstance(right, Const) and isinstance(right.value, str) and isinstance(left.value, str):
            return Const((left.value in right.value) == (op == "in"))
    if isinstance(left, _SAME) and isinstance(right, Sequence) and right.rest is None:
        if any(i is left for i in right.items):
            return Const(op == "in")
        if all(isinstance(i, (*_SAME, Const)) for i in right.items) and len(right.items) < 12:
            return Const(op == "not in")
    if isinstance(right, Mapping) and not right.items and right.rest is None:
        return Const(op == "not in")
    if isinstance(right, Sequence) and not right.items and right.rest is None:
        return Const(op == "not in")
    return Host(kind="bool", inputs=origins(left))


def _numbered(key: Value, table: Mapping) -> bool:
    """True for a number of a loop, such as a layer's, and a table that a loop filled before the capture: it has all."""
    number = isinstance(key, Const) and type(key.value) is int
    counted = isinstance(key, Host) and key.source == "loop"
    filled = isinstance(table.keys, Host) and table.keys.source == "loop" and table.rest is not None
    return (number or counted) and filled and not any(t.storage.born for t in tensors(table.rest or key, 2))


def _ifexp(m: Machine, node: tree.IfExp) -> Value:
    test = m.eval(node.test)
    known = truth(m, test, "ternary", node.test)
    from graphlint.interp.execute import note_branch
    from graphlint.interp.narrowing import narrowed

    if known is not None:
        note_branch(m, node.test, test, known, node.body if known else node.orelse)
        return m.eval(node.body if known else node.orelse)
    with m.condition():
        with narrowed(m, node.test, True):
            note_branch(m, node.test, test, True, node.body)
            body = m.eval(node.body)
        with narrowed(m, node.test, False):
            note_branch(m, node.test, test, False, node.orelse)
            orelse = m.eval(node.orelse)
    return join(body, orelse)


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
    items, exact = subscripts.iterate(m, source, clause.iter)
    items = m.rounds(items, exact)
    m.loop_ids += 1
    loop = m.loop_ids
    saved = m.loops
    filtered = False
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
    finally:
        m.loops = saved
    if (
        (not exact or filtered or subscripts.shortened(source, items))
        and isinstance(result, Sequence)
        and result.items
        and result.rest is None
    ):
        # Of unknown length: the items seen stand for all.
        result.rest = result.items[-1]


def _starred(m: Machine, node: tree.Starred) -> Value:
    return m.eval(node.value)


def _await(m: Machine, node: tree.Await) -> Value:
    value = m.eval(node.value)
    if isinstance(value, Instance) and value.external in FUTURES:
        return m.call(ExternalMethod(receiver=value, name="result"), (), {}, node.span, "await")
    return value


def _yield(m: Machine, node: tree.Yield) -> Value:
    value = m.eval(node.value) if node.value is not None else Const(None)
    activation = m.stack[-1]
    if node.many:
        activation.yields += subscripts.elements(m, value)
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
    tree.SetExpr: _set, tree.DictExpr: _dict, tree.BinOp: _binop, tree.UnaryOp: _unary, tree.BoolOp: _boolop,
    tree.Compare: _compare, tree.IfExp: _ifexp, tree.Lambda: _lambda, tree.Comprehension: _comprehension,
    tree.Starred: _starred, tree.Await: _await, tree.Yield: _yield, tree.NamedExpr: _named,
}  # fmt: skip
