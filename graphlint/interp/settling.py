"""Branches that settle themselves: `if need > self.buffer.numel(): self.buffer = torch.empty(need, ...)`.

What the arm binds makes the test fail from then on, for as long as no more is asked for. So a capture does not come by
an arm that ran in its warm-up, though neither number is known. Only buffers count: what binds a number (a counter that
is wrapped around) is asked again each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.fact import Bind
from graphlint.lower import tree
from graphlint.value import Instance, Mapping, Tensor, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

_ASKS = frozenset({"<", "<=", ">", ">=", "!=", "is"})


def note(m: Machine, node: tree.If | tree.IfExp, start: int) -> None:
    """After `node` ran outside a capture, from the fact at `start` on."""
    if m.region is not None or not _asks(node.test):
        return
    bound = [f for f in m.life[start:] if isinstance(f, Bind) and f.how == "=" and _buffer(f)]
    if bound:
        read = set(_read(m, node.test))
        for fact in bound:
            for name in (fact.place.name, "*"):
                if (fact.place.owner, name) in read:
                    m.settled.add((id(node), fact.place.owner, name))


def settled(m: Machine, node: tree.If | tree.IfExp) -> bool:
    """True if the warm-up saw to it that the test fails."""
    if m.region is None or not m.settled or not _asks(node.test):
        return False
    return any((id(node), owner, name) in m.settled for owner, name in _read(m, node.test))


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
        case tree.Attribute(value=tree.Name() as base, name=name):
            with m.quiet_reading():
                owner = m.eval(base)
            yield from ((o.id, name) for o in options(owner) if isinstance(o, Instance))
        case tree.Attribute(value=base):
            yield from _read(m, base)
        case tree.Name(id=name) if name in m.scope.globals:
            yield m.names.module_scope(m.scope.module).id, name
        case tree.Subscript(value=base):
            with m.quiet_reading():
                table = m.eval(base)
            yield from ((o.id, "*") for o in options(table) if isinstance(o, Mapping))
            yield from _read(m, base)
        case tree.Compare(left=left, comparators=others):
            for part in (left, *others):
                yield from _read(m, part)
        case tree.BoolOp(values=values):
            for part in values:
                yield from _read(m, part)
        case tree.Call(func=func, args=args):
            yield from _read(m, func)
            for arg in args:
                yield from _read(m, arg.value)
