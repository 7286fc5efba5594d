"""Branches that settle themselves: what the arm binds makes its own test fail from then on.

    if need > self.buffer.numel(): self.buffer = torch.empty(need, ...)
    if self.parallel and not self.ready: self.connect(); self.ready = True
    best = self.best.get(key)
    if best is None: best = self.best[key] = self.tune(...)

So a capture does not come by an arm that ran in its warm-up, though neither the numbers nor the other conditions are
known: if the arm did not run there, what kept it from running still does. A number that is bound (a counter that is
wrapped around) is asked for again each time, and settles nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.fact import Bind
from graphlint.lower import tree
from graphlint.value import Const, Instance, Mapping, Tensor, Value, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

_ASKS = frozenset({"<", "<=", ">", ">=", "!=", "is"})
_ABSENT = ("is", "==")
#: Any entry of a table: its keys are not known.
_ANY = "*"


def note(m: Machine, node: tree.If | tree.IfExp, start: int, end: int) -> None:
    """After `node` ran outside a capture; its body left the facts from `start` to `end`."""
    if m.region is not None:
        return
    sizes = _asks(node.test)
    parts = [p for p in _conjuncts(node.test) if _absence(p) is not None]
    if not sizes and not parts:
        return
    bound = {(f.place.owner, f.place.name): f for f in m.life[start:end] if isinstance(f, Bind) and f.how == "="}
    if not bound:
        return
    if sizes and (buffers := [f for f in bound.values() if _buffer(f)]):
        read = set(_read(m, node.test))
        for fact in buffers:
            for name in (fact.place.name, _ANY):
                if (fact.place.owner, name) in read:
                    m.settled.add((id(node), fact.place.owner, name))
    for part in parts:
        places = set(_read(m, part))
        for (owner, name), fact in bound.items():
            if (owner, name) in places and _fails(part, fact.value):
                m.settled.add((id(node), owner, name))
            elif isinstance(fact.owner, Mapping) and fact.value is not None and _fills(part, fact.value):
                m.settled.add((id(node), owner, _ANY))


def settled(m: Machine, node: tree.If | tree.IfExp) -> bool:
    """True if the warm-up saw to it that the test fails."""
    if m.region is None or not m.settled:
        return False
    asked = [node.test] if _asks(node.test) else [p for p in _conjuncts(node.test) if _absence(p) is not None]
    return any((id(node), owner, name) in m.settled for part in asked for owner, name in _read(m, part))


def _conjuncts(test: tree.Expr) -> Iterator[tree.Expr]:
    """The parts that must all be true for the arm to run."""
    if isinstance(test, tree.BoolOp) and test.op == "and":
        for value in test.values:
            yield from _conjuncts(value)
    else:
        yield test


def _absence(test: tree.Expr) -> tree.Expr | None:
    """What a test asks for in the hope that it is not there yet: `x` in `x is None`, `not x` and `k not in x`."""
    match test:
        case tree.UnaryOp(op="not", operand=operand):
            return operand
        case tree.Compare(left=left, ops=(op,), comparators=(tree.Constant(value=None),)) if op in _ABSENT:
            return left
        case tree.Compare(ops=("not in",), comparators=(table,)):
            return table
    return None


def _fails(test: tree.Expr, value: Value | None) -> bool:
    """True if a test of absence fails once what it asks for is `value`."""
    return value is not None and not _looks_up(test) and all(_there(test, o) for o in options(value))


def _fills(test: tree.Expr, value: Value) -> bool:
    """True if a look into a table finds something once an entry is `value`."""
    return _looks_up(test) or all(_there(test, o) for o in options(value))


def _looks_up(test: tree.Expr) -> bool:
    return isinstance(test, tree.Compare) and test.ops == ("not in",)


def _there(test: tree.Expr, value: Value) -> bool:
    """True for what is not None, or where the test asks for a truth, for what is neither None nor false."""
    if isinstance(value, Const):
        return bool(value.value) or (isinstance(test, tree.Compare) and value.value is not None)
    return isinstance(test, tree.Compare) or isinstance(value, (Instance, Tensor, Mapping))


def _buffer(fact: Bind) -> bool:
    return fact.value is not None and any(isinstance(o, Tensor) for o in options(fact.value))


def _asks(test: tree.Expr) -> bool:
    """True for a question of size or presence, and for several of them: a flag may come out otherwise."""
    if isinstance(test, tree.BoolOp):
        return all(_asks(v) for v in test.values)
    return isinstance(test, tree.Compare) and all(op in _ASKS for op in test.ops)


def _read(m: Machine, node: tree.Expr) -> Iterator[tuple[int, str]]:
    """Owner and name of the attributes, globals and entries of tables that a test looks at."""
    match node:
        case tree.UnaryOp(operand=operand):
            yield from _read(m, operand)
        case tree.Attribute(value=tree.Name() as base, name=name):
            with m.quiet_reading():
                owner = m.eval(base)
            yield from ((o.id, name) for o in options(owner) if isinstance(o, Instance))
        case tree.Attribute(value=base):
            yield from _read(m, base)
        case tree.Name(id=name) if name in m.scope.globals:
            yield m.names.module_scope(m.scope.module).id, name
        case tree.Name(id=name) if name in m.scope.variables:
            places = (o.place for o in options(m.scope.variables[name]))
            yield from ((p.owner, _ANY) for p in places if p is not None and p.kind == "item")
        case tree.Subscript(value=base):
            yield from _entries(m, base)
            yield from _read(m, base)
        case tree.Compare(left=left, ops=ops, comparators=others):
            for part in (left, *others):
                yield from _read(m, part)
            if ops == ("not in",):
                yield from _entries(m, others[0])
        case tree.BoolOp(values=values):
            for part in values:
                yield from _read(m, part)
        case tree.Call(func=func, args=args):
            yield from _read(m, func)
            for arg in args:
                yield from _read(m, arg.value)
            if isinstance(func, tree.Attribute) and func.name == "get":
                yield from _entries(m, func.value)


def _entries(m: Machine, node: tree.Expr) -> Iterator[tuple[int, str]]:
    with m.quiet_reading():
        table = m.eval(node)
    yield from ((o.id, _ANY) for o in options(table) if isinstance(o, Mapping))
