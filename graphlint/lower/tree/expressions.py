"""Expressions, and what stands in them: arguments, parameters, clauses."""

from __future__ import annotations

from dataclasses import dataclass

from graphlint.source import Span


@dataclass(slots=True)
class Node:
    span: Span


@dataclass(slots=True)
class Expr(Node):
    pass


@dataclass(slots=True)
class Name(Expr):
    id: str


@dataclass(slots=True)
class Constant(Expr):
    """A literal: None, bool, int, float, complex, str, bytes or Ellipsis."""

    value: object


@dataclass(slots=True)
class FString(Expr):
    """An f-string: the expressions that it formats (format specs' expressions included), in order.

    `conversions[i]` is "", "r", "s" or "a"; `text` is the literal text with `{}` for each value.
    """

    values: tuple[Expr, ...]
    text: str


@dataclass(slots=True)
class Attribute(Expr):
    value: Expr
    name: str


@dataclass(slots=True)
class Arg(Node):
    """An argument: `star` is "", "*" or "**"; `keyword` is the name of `keyword=value`."""

    value: Expr
    keyword: str | None
    star: str


@dataclass(slots=True)
class Call(Expr):
    func: Expr
    args: tuple[Arg, ...]


@dataclass(slots=True)
class Slice(Expr):
    lower: Expr | None
    upper: Expr | None
    step: Expr | None


@dataclass(slots=True)
class Subscript(Expr):
    """`value[index]`; several indices are a TupleExpr, slices are Slice nodes."""

    value: Expr
    index: Expr


@dataclass(slots=True)
class TupleExpr(Expr):
    items: tuple[Expr, ...]


@dataclass(slots=True)
class ListExpr(Expr):
    items: tuple[Expr, ...]


@dataclass(slots=True)
class SetExpr(Expr):
    items: tuple[Expr, ...]


@dataclass(slots=True)
class DictExpr(Expr):
    """`items` are (key, value); key None stands for `**value`."""

    items: tuple[tuple[Expr | None, Expr], ...]


@dataclass(slots=True)
class BinOp(Expr):
    """`op` is the operator's text: + - * / // % ** @ & | ^ << >>."""

    op: str
    left: Expr
    right: Expr


@dataclass(slots=True)
class UnaryOp(Expr):
    """`op` is one of - + ~ not."""

    op: str
    operand: Expr


@dataclass(slots=True)
class BoolOp(Expr):
    """`op` is "and" or "or"; `a and b and c` is one node with three values."""

    op: str
    values: tuple[Expr, ...]


@dataclass(slots=True)
class Compare(Expr):
    """`left ops[0] comparators[0] ops[1] ...`; ops are == != < <= > >= is, "is not", in, "not in"."""

    left: Expr
    ops: tuple[str, ...]
    comparators: tuple[Expr, ...]


@dataclass(slots=True)
class IfExp(Expr):
    test: Expr
    body: Expr
    orelse: Expr


@dataclass(slots=True)
class Lambda(Expr):
    params: tuple[Param, ...]
    body: Expr


@dataclass(slots=True)
class Clause(Node):
    """`for target in iter if ifs[0] if ifs[1]`."""

    target: Expr
    iter: Expr
    ifs: tuple[Expr, ...]


@dataclass(slots=True)
class Comprehension(Expr):
    """`kind` is list, set, generator or dict (then `key` is set and `element` the value)."""

    kind: str
    key: Expr | None
    element: Expr
    clauses: tuple[Clause, ...]


@dataclass(slots=True)
class Starred(Expr):
    value: Expr


@dataclass(slots=True)
class Await(Expr):
    value: Expr


@dataclass(slots=True)
class Yield(Expr):
    """`yield value`, or `yield from value` with `many`."""

    value: Expr | None
    many: bool


@dataclass(slots=True)
class NamedExpr(Expr):
    target: Expr
    value: Expr


@dataclass(slots=True)
class Param(Node):
    """`kind` is "positional-only", "positional", "keyword-only", "*" or "**"."""

    name: str
    kind: str
    annotation: Expr | None
    default: Expr | None
