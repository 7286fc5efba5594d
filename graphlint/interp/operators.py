"""Operators: what `+`, `<`, `in`, `is` and `not` make of values, and the truth that conditions ask for."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from graphlint.fact import HostRead, Operator, Truth
from graphlint.interp import attributes, iteration, protocols, subscripts, tables
from graphlint.interp.objects import ClassValue, ExternalMethod, FunctionValue
from graphlint.interp.spelling import spelled
from graphlint.knowledge.results import differentiable, first_tensors
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
#: Values of which one object stands for one object of the program.
_SAME = (ClassValue, FunctionValue)
_NUMBERS = (int, float, bool, complex)


def binary(m: Machine, op: str, left: Value, right: Value, node: tree.Node) -> Value:
    """`left op right`; tensors give a new tensor, known numbers a known number."""
    if (answer := protocols.binary(m, op, left, right, node.span)) is not None:
        return answer
    if isinstance(left, Union) or isinstance(right, Union):
        if any(isinstance(o, Tensor) for v in (left, right) for o in options(v)):
            picked = [first_tensors([v]) or options(v) for v in (left, right)]
            return binary(m, op, picked[0][0], picked[1][0], node)
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
        return m.sequence(left.kind, [*left.items, *right.items], rest, left.sized and right.sized)
    if op == "*" and isinstance(left, Sequence):
        return _repeated(m, left, right)
    if op == "*" and isinstance(right, Sequence):
        return _repeated(m, right, left)
    if isinstance(left, Mapping) and isinstance(right, Mapping) and op == "|":
        return m.mapping({**left.items, **right.items}, left.rest or right.rest)
    if isinstance(left, External) and isinstance(right, (External, Const)) and op == "|":
        return Unknown()
    if isinstance(left, Const) and isinstance(left.value, str) and op == "%":
        values = right.items if isinstance(right, Sequence) else [right]
        for value in values:
            protocols.asked(m, value, protocols.TEXT, (), node.span)
            if isinstance(value, Tensor):
                m.emit(HostRead, node.span, op="format", value=value, text="%")
    # A name of a package that is not read is as good as unknown.
    left, right = (Unknown(v.name.rpartition(".")[2]) if isinstance(v, External) else v for v in (left, right))
    if isinstance(left, (Host, Const, Unknown)) and isinstance(right, (Host, Const, Unknown)):
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            hint = left.hint if isinstance(left, Unknown) else getattr(right, "hint", "")
            # Whatever the other is, a number or a tensor: a number that a capture computes with is frozen in the graph.
            return Unknown(hint, numbers_in(left) | numbers_in(right) if m.region is not None else frozenset())
        read_at = next((v.read_at for v in (left, right) if isinstance(v, Host) and v.read_at is not None), None)
        kind = "string" if any(isinstance(v, Host) and v.kind == "string" for v in (left, right)) else "number"
        return Host(_source(left, right), kind, read_at, origins(left) | origins(right), _symbol(op, left, right))
    return Unknown()


def _repeated(m: Machine, sequence: Sequence, times: Value) -> Value:
    """`[None] * 8`: each item as often, or, of many, once for all."""
    items = list(sequence.items)
    if sequence.rest is not None or not isinstance(times, Const) or not isinstance(times.value, int):
        return m.sequence(sequence.kind, items, sequence.rest, sized=False)
    if len(items) * times.value > iteration.LISTED:
        return m.sequence(sequence.kind, items, sized=False)
    return m.sequence(sequence.kind, items * times.value, sized=sequence.sized)


def numbers_in(value: Value) -> frozenset[Place]:
    """The places of the numbers that `value` was computed from, as far as it is sure that they are numbers."""
    return value.inputs if isinstance(value, Unknown) else origins(value)


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
    if any(isinstance(v, Unknown) for v in (left, right)) and op != "@":
        # Another tensor may spread a dim of one.
        shapes = [s and tuple(None if d == 1 else d for d in s) for s in shapes]
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
    tracked = m.grad_enabled() and any(v.requires_grad or v.grad_graph for v in both) and differentiable(op, dtype)
    result = m.tensor(
        node.span, device=device, shape=shape, dtype=dtype, requires_grad=tracked, grad_graph=tracked,
        sure=all(v.sure for v in both),
    )  # fmt: skip
    fact = m.emit(Operator, node.span, op=op, operands=(left, right), result=result)
    m.reads(fact, left, right)
    note_output(m, result, fact)
    return result


def unary(m: Machine, node: tree.UnaryOp) -> Value:
    value = m.eval(node.operand)
    if (answer := protocols.unary(m, node.op, value, node.span)) is not None:
        return answer
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


def note_output(m: Machine, result: Value, fact: Any) -> None:
    """Memory made inside a capture belongs to the graph."""
    if m.region is not None:
        for option in options(result):
            if isinstance(option, Tensor) and option.storage.born is m.region:
                m.region.outputs.setdefault(option.storage, fact)


def compare(m: Machine, op: str, left: Value, right: Value, node: tree.Compare) -> Value:
    if op in ("is", "is not"):
        known = _identical(left, right)
        inputs = origins(left) | origins(right)
        return Host(kind="bool", inputs=inputs) if known is None else Const(known == (op == "is"), inputs)
    if op in ("in", "not in"):
        return _contains(m, op, left, right, node)
    if (answer := protocols.compare(m, op, left, right, node.span)) is not None:
        return answer
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        if op in ("==", "!=") and any(isinstance(v, Const) and v.value is None for v in (left, right)):
            return Const(op == "!=")
        return _tensor_operator(m, op, left, right, node)
    inputs = origins(left) | origins(right)
    if op in ("==", "!=") and (equal := _equal_tuples(left, right)) is not None:
        return Const(equal == (op == "=="), inputs | _item_origins(left) | _item_origins(right))
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


def _equal_tuples(left: Value, right: Value) -> bool | None:
    """Whether two tuples whose items are all known are equal; a tuple is never None."""
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Sequence) and isinstance(other, Const) and other.value is None:
            return False
    if not (isinstance(left, Sequence) and isinstance(right, Sequence)):
        return None
    if left.kind != "tuple" or right.kind != "tuple" or left.rest is not None or right.rest is not None:
        return None
    if not (left.sized and right.sized):
        return None
    if len(left.items) != len(right.items):
        return False
    one, other = subscripts.as_key(left), subscripts.as_key(right)
    return one.value == other.value if isinstance(one, Const) and isinstance(other, Const) else None


def _item_origins(value: Value) -> frozenset[Place]:
    return frozenset().union(*map(origins, value.items)) if isinstance(value, Sequence) else frozenset()


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
    if (answer := protocols.asked(m, right, ("__contains__",), (left,), node.span)) is not None:
        if any(isinstance(o, Tensor) for o in options(answer)):
            truth(m, answer, "in", node)
            return Host("read", "bool", m.location(node.span))
        if isinstance(answer, Const):
            return Const(bool(answer.value) == (op == "in"), origins(answer))
        return Host(_source(answer), "bool", inputs=origins(answer))
    if isinstance(right, Tensor):
        fact = m.emit(Truth, node.span, op="in", value=right, text=spelled(node))
        m.reads(fact, right, left)
        return Host("read", "bool", m.location(node.span))
    if isinstance(left, Tensor) and isinstance(right, Sequence) and right.kind in ("list", "tuple"):
        if any(isinstance(i, (Tensor, Const, Host)) for i in right.items):
            fact = m.emit(Truth, node.span, op="in", value=left, text=spelled(node))
            m.reads(fact, left)
        return Host("read", "bool", m.location(node.span))
    if isinstance(right, Instance) and tables.counts_as_held(m, right, "__contains__"):
        return _contains(m, op, left, right.attrs.get("$items", Unknown()), node)
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
        if isinstance(right, Sequence) and right.kind == "range":
            numbers = right.numbers
            return Const((left.value in numbers) == (op == "in")) if numbers is not None else Host(kind="bool")
        if isinstance(right, Sequence) and right.length is not None and all(isinstance(i, Const) for i in right.items):
            return Const(any(i.value == left.value for i in right.items if isinstance(i, Const)) == (op == "in"))
        if isinstance(right, Sequence) and isinstance(right.rest, Const) and _lacks(right, left):
            return Const(op == "not in")
        if isinstance(right, Const) and isinstance(right.value, str) and isinstance(left.value, str):
            return Const((left.value in right.value) == (op == "in"))
    if isinstance(left, _SAME) and isinstance(right, Sequence) and right.rest is None:
        if any(i is left for i in right.items):
            return Const(op == "in")
        if all(isinstance(i, (*_SAME, Const)) for i in right.items) and len(right.items) < 12 and right.sized:
            return Const(op == "not in")
    if isinstance(right, Mapping) and not right.items and right.rest is None:
        return Const(op == "not in")
    if isinstance(right, Sequence) and right.rest is None:
        if not right.items:
            return Const(op == "not in")
        if _source(left) == "loop":  # `step in (0, 4)`: true in some rounds
            return Host("loop", "bool", inputs=origins(left))
    return Host(kind="bool", inputs=origins(left))


def _numbered(key: Value, table: Mapping) -> bool:
    """True for a number of a loop, such as a layer's, and a table that a loop filled before the capture: it has all."""
    number = isinstance(key, Const) and type(key.value) is int
    counted = isinstance(key, Host) and key.source == "loop"
    filled = isinstance(table.keys, Host) and table.keys.source == "loop" and table.rest is not None
    return (number or counted) and filled and not any(t.storage.born for t in tensors(table.rest or key, 2))


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
        case Instance(attrs={"$items": held}) if tables.counts_as_held(m, value):
            return _truth_of(m, held, op, node)
        case Instance():
            if (answer := protocols.asked(m, value, ("__bool__", "__len__"), (), node.span)) is not None:
                return None if isinstance(answer, Tensor) else truth(m, answer, op, node)
            known = True if attributes.has_default_truth(m, value) else None
        case Tensor():
            fact = m.emit(Truth, node.span, op=op, value=value, text=spelled(node))
            m.reads(fact, value)
            return None
        case Host():
            m.emit(Truth, node.span, op=op, value=value, text=spelled(node))
            return None
        case External(name=name) if name.rpartition(".")[2].isupper():
            return None  # a constant of a package that was not read
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
