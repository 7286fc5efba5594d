"""Functions and classes, whose heads and bodies are lowered on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from graphlint.lower.tree.expressions import Arg, Expr, Param
from graphlint.lower.tree.statements import Stmt


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
    bare: bool = False
    """Known to have no decorators, before the head is lowered."""

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
        return () if self.bare else self.head.decorators

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
    bare: bool = False
    """Known to have no decorators, before the head is lowered."""

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
        return () if self.bare else self.head.decorators

    @property
    def body(self) -> tuple[Stmt, ...]:
        if self._body is None:
            self._body = self._load() if self._load is not None else ()
            self._load = None
        return self._body
