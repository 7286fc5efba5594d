"""The small tree that the rest works on: what LibCST says, without whitespace, with spans resolved.

Every node has a `span`. Expressions and statements are plain slotted dataclasses; nothing here knows torch.
Heads and bodies of functions and classes are lowered on first use, so only code that a region reaches is ever parsed
by LibCST.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from graphlint.source import Span


@dataclass(slots=True)
class Node:
    span: Span


# ------------------------------------------------------------------------------------------------ expressions


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


# ------------------------------------------------------------------------------------------------- statements


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


@dataclass(slots=True)
class Param(Node):
    """`kind` is "positional-only", "positional", "keyword-only", "*" or "**"."""

    name: str
    kind: str
    annotation: Expr | None
    default: Expr | None


@dataclass(slots=True)
class FunctionHead:
    """What stands before a function's body."""

    params: tuple[Param, ...]
    decorators: tuple[Expr, ...]
    returns: Expr | None


@dataclass(slots=True)
class ClassHead:
    """What stands before a class's body."""

    bases: tuple[Expr, ...]
    keywords: tuple[Arg, ...]
    decorators: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Function(Stmt):
    """`def name(params): body`. `span` is the header `def name(...) -> returns:`, decorators excluded.

    `qualname` is `Class.method` or `outer.inner` (no `<locals>`). Head and body are lowered apart, each on first use;
    both raise SourceError where LibCST cannot parse them. Compared and hashed by identity: a module has one object
    for each `def`.
    """

    name: str
    qualname: str
    is_async: bool
    is_generator: bool
    lines: tuple[int, int]
    """First line (decorators included) and last line."""
    _head: FunctionHead | None = field(default=None, repr=False)
    _body: tuple[Stmt, ...] | None = field(default=None, repr=False)
    _load_head: Callable[[], FunctionHead] | None = field(default=None, repr=False)
    _load: Callable[[], tuple[Stmt, ...]] | None = field(default=None, repr=False)

    @property
    def head(self) -> FunctionHead:
        if self._head is None:
            self._head = self._load_head() if self._load_head is not None else FunctionHead((), (), None)
            self._load_head = None
        return self._head

    @property
    def params(self) -> tuple[Param, ...]:
        return self.head.params

    @property
    def decorators(self) -> tuple[Expr, ...]:
        return self.head.decorators

    @property
    def returns(self) -> Expr | None:
        return self.head.returns

    @property
    def body(self) -> tuple[Stmt, ...]:
        if self._body is None:
            self._body = self._load() if self._load is not None else ()
            self._load = None
        return self._body


@dataclass(slots=True, eq=False)
class Class(Stmt):
    """`class name(bases, keywords): body`. `body` holds Function and Class stubs and the other statements in order.

    Head and body are lowered on first use and compared by identity, as a Function's.
    """

    name: str
    qualname: str
    lines: tuple[int, int]
    """First line (decorators included) and last line."""
    _head: ClassHead | None = field(default=None, repr=False)
    _body: tuple[Stmt, ...] | None = field(default=None, repr=False)
    _load_head: Callable[[], ClassHead] | None = field(default=None, repr=False)
    _load: Callable[[], tuple[Stmt, ...]] | None = field(default=None, repr=False)

    @property
    def head(self) -> ClassHead:
        if self._head is None:
            self._head = self._load_head() if self._load_head is not None else ClassHead((), (), ())
            self._load_head = None
        return self._head

    @property
    def bases(self) -> tuple[Expr, ...]:
        return self.head.bases

    @property
    def keywords(self) -> tuple[Arg, ...]:
        return self.head.keywords

    @property
    def decorators(self) -> tuple[Expr, ...]:
        return self.head.decorators

    @property
    def body(self) -> tuple[Stmt, ...]:
        if self._body is None:
            self._body = self._load() if self._load is not None else ()
            self._load = None
        return self._body
