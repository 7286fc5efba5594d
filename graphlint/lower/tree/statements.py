"""Statements, all but the definitions of functions and classes."""

from __future__ import annotations

from dataclasses import dataclass

from graphlint.lower.tree.expressions import Expr, Node


@dataclass(slots=True)
class Stmt(Node):
    """A statement. `span` of a compound statement is its header only (`if test:`), never the body."""


@dataclass(slots=True)
class ExprStmt(Stmt):
    value: Expr


@dataclass(slots=True)
class Assign(Stmt):
    """`targets[0] = targets[1] = value`."""

    targets: tuple[Expr, ...]
    value: Expr


@dataclass(slots=True)
class AugAssign(Stmt):
    """`target op= value`; op without the `=`."""

    target: Expr
    op: str
    value: Expr


@dataclass(slots=True)
class AnnAssign(Stmt):
    target: Expr
    annotation: Expr
    value: Expr | None


@dataclass(slots=True)
class Return(Stmt):
    value: Expr | None


@dataclass(slots=True)
class Raise(Stmt):
    exc: Expr | None
    cause: Expr | None


@dataclass(slots=True)
class Assert(Stmt):
    test: Expr
    message: Expr | None


@dataclass(slots=True)
class Delete(Stmt):
    targets: tuple[Expr, ...]


@dataclass(slots=True)
class Pass(Stmt):
    pass


@dataclass(slots=True)
class Break(Stmt):
    pass


@dataclass(slots=True)
class Continue(Stmt):
    pass


@dataclass(slots=True)
class Global(Stmt):
    names: tuple[str, ...]


@dataclass(slots=True)
class Nonlocal(Stmt):
    names: tuple[str, ...]


@dataclass(slots=True)
class Import(Stmt):
    """`import a.b as c, d`: (dotted name, alias or None)."""

    names: tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class ImportFrom(Stmt):
    """`from ..module import a as b`: `level` dots, `names` of (name, alias or None); ("*", None) for a star."""

    module: str
    level: int
    names: tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class If(Stmt):
    """An `elif` is an If alone in `orelse`."""

    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True)
class While(Stmt):
    test: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True)
class For(Stmt):
    target: Expr
    iter: Expr
    body: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...]


@dataclass(slots=True)
class WithItem(Node):
    expr: Expr
    target: Expr | None


@dataclass(slots=True)
class With(Stmt):
    items: tuple[WithItem, ...]
    body: tuple[Stmt, ...]


@dataclass(slots=True)
class Handler(Node):
    """`except type as name:`; type None for a bare except."""

    type: Expr | None
    name: str | None
    body: tuple[Stmt, ...]


@dataclass(slots=True)
class Try(Stmt):
    body: tuple[Stmt, ...]
    handlers: tuple[Handler, ...]
    orelse: tuple[Stmt, ...]
    final: tuple[Stmt, ...]


@dataclass(slots=True)
class Case(Node):
    """`case pattern if guard:`; `pattern` is a value to compare with, or None for a capture or wildcard.

    `names` are the names that the pattern binds; `values` every value pattern in it (`case 1 | 2`).
    """

    values: tuple[Expr, ...]
    names: tuple[str, ...]
    guard: Expr | None
    body: tuple[Stmt, ...]
    irrefutable: bool


@dataclass(slots=True)
class Match(Stmt):
    subject: Expr
    cases: tuple[Case, ...]
