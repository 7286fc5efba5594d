"""LibCST statements to tree statements: the walk that lowers a parsed slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import libcst as cst

from graphlint.lower import tree
from graphlint.lower.cursor import Cursor
from graphlint.lower.leaves import identifier
from graphlint.lower.patterns import PatternLowerer
from graphlint.lower.simple import SimpleLowerer

Definition: TypeAlias = tree.Function | tree.Class
Adopt: TypeAlias = Callable[[Any], Any]


class StatementLowerer(SimpleLowerer, PatternLowerer):
    """Lowers statements at a cursor.

    `scope` is the qualified name of the definition around them; `adopt` is given each Function and Class made and
    returns the object to put in its place, so that a module keeps one object for each definition.
    """

    def __init__(self, cursor: Cursor, scope: str = "", adopt: Adopt | None = None) -> None:
        super().__init__(cursor)
        self.scope = scope
        self.adopt = adopt
        self._statements: dict[type, Callable[[Any, int], tree.Stmt]] = {}

    # -------------------------------------------------------------------------------------------- blocks

    def block(self, nodes: Iterable[Any]) -> tuple[tree.Stmt, ...]:
        """Statements of a module or an indented block."""
        out: list[tree.Stmt] = []
        for node in nodes:
            if type(node) is cst.SimpleStatementLine:
                self._small(node.body, out)
            else:
                out.append(self._statement(node))
        return tuple(out)

    def suite(self, node: Any) -> tuple[tree.Stmt, ...]:
        """What stands behind a header's colon."""
        if type(node) is cst.SimpleStatementSuite:
            out: list[tree.Stmt] = []
            self._small(node.body, out)
            return tuple(out)
        return self.block(node.body)

    def _small(self, nodes: Iterable[Any], out: list[tree.Stmt]) -> None:
        for node in nodes:
            out.append(self._statement(node))
            if type(node.semicolon) is cst.Semicolon:
                self.cursor.take(";")

    def _statement(self, node: Any) -> tree.Stmt:
        kind = type(node)
        method = self._statements.get(kind)
        if method is None:
            method = self._statements[kind] = getattr(self, f"_s_{kind.__name__}", self._s_unknown)
        return method(node, self.cursor.here())

    def _s_unknown(self, node: Any, start: int) -> tree.Stmt:
        """A statement that LibCST knows and this table does not yet: stepped over."""
        self.cursor.take(cst.Module(()).code_for_node(node).strip().rstrip(";").rstrip())
        return tree.Pass(self.cursor.span(start, self.cursor.pos))

    def _header(self, start: int) -> Any:
        """Takes the colon and gives the header's span."""
        self.cursor.take(":")
        return self.cursor.span(start, self.cursor.pos)

    def _else(self, node: Any) -> tuple[tree.Stmt, ...]:
        """An `else:` or `finally:` part, if there is one."""
        if node is None:
            return ()
        self.cursor.take("else" if type(node) is cst.Else else "finally")
        self.cursor.take(":")
        return self.suite(node.body)

    # -------------------------------------------------------------------------------------------- compound statements

    def _s_If(self, node: Any, start: int) -> tree.Stmt:
        # An elif chain nests to the right without end, so it is walked in a loop and put together from its end.
        arms: list[tuple[Any, tree.Expr, tuple[tree.Stmt, ...]]] = []
        keyword = "if"
        while isinstance(node, cst.If):
            start = self.cursor.take(keyword)
            test = self.expr(node.test)
            span = self._header(start)
            arms.append((span, test, self.suite(node.body)))
            node = node.orelse
            keyword = "elif"
        orelse = self._else(node)
        while True:
            span, test, body = arms.pop()
            made = tree.If(span, test, body, orelse)
            if not arms:
                return made
            orelse = (made,)

    def _s_While(self, node: cst.While, start: int) -> tree.Stmt:
        self.cursor.take("while")
        test = self.expr(node.test)
        span = self._header(start)
        body = self.suite(node.body)
        return tree.While(span, test, body, self._else(node.orelse))

    def _s_For(self, node: cst.For, start: int) -> tree.Stmt:
        if node.asynchronous is not None:
            self.cursor.take("async")
        self.cursor.take("for")
        target = self.expr(node.target)
        self.cursor.take("in")
        iterable = self.expr(node.iter)
        span = self._header(start)
        body = self.suite(node.body)
        return tree.For(span, target, iterable, body, self._else(node.orelse))

    def _s_With(self, node: cst.With, start: int) -> tree.Stmt:
        cursor = self.cursor
        if node.asynchronous is not None:
            cursor.take("async")
        cursor.take("with")
        bracketed = isinstance(node.lpar, cst.LeftParen)
        if bracketed:
            cursor.take("(")
        items: list[tree.WithItem] = []
        for item in node.items:
            first = cursor.here()
            value = self.expr(item.item)
            target: tree.Expr | None = None
            if item.asname is not None:
                cursor.take("as")
                target = self.expr(item.asname.name)
            items.append(tree.WithItem(cursor.span(first, cursor.pos), value, target))
            if type(item.comma) is cst.Comma:
                cursor.take(",")
        if bracketed:
            cursor.take(")")
        span = self._header(start)
        return tree.With(span, tuple(items), self.suite(node.body))

    def _s_Try(self, node: Any, start: int) -> tree.Stmt:
        self.cursor.take("try")
        span = self._header(start)
        body = self.suite(node.body)
        handlers = tuple([self._handler(handler) for handler in node.handlers])
        orelse = self._else(node.orelse)
        return tree.Try(span, body, handlers, orelse, self._else(node.finalbody))

    _s_TryStar = _s_Try

    def _handler(self, node: Any) -> tree.Handler:
        start = self.cursor.take("except")
        if type(node) is cst.ExceptStarHandler:
            self.cursor.take("*")
        kind = self.optional(node.type)
        name: str | None = None
        if node.name is not None:
            self.cursor.take("as")
            bound = self.expr(node.name.name)
            name = bound.id if isinstance(bound, tree.Name) else None
        span = self._header(start)
        return tree.Handler(span, kind, name, self.suite(node.body))

    def _s_Match(self, node: cst.Match, start: int) -> tree.Stmt:
        self.cursor.take("match")
        subject = self.expr(node.subject)
        span = self._header(start)
        cases: list[tree.Case] = []
        for case in node.cases:
            first = self.cursor.take("case")
            pattern = self.pattern(case.pattern)
            guard: tree.Expr | None = None
            if case.guard is not None:
                self.cursor.take("if")
                guard = self.expr(case.guard)
            at = self._header(first)
            body = self.suite(case.body)
            sure = pattern.irrefutable and guard is None
            cases.append(tree.Case(at, tuple(pattern.values), tuple(pattern.names), guard, body, sure))
        return tree.Match(span, subject, tuple(cases))

    # -------------------------------------------------------------------------------------------- definitions

    def _decorators(self, nodes: Iterable[cst.Decorator]) -> tuple[tree.Expr, ...]:
        out: list[tree.Expr] = []
        for node in nodes:
            self.cursor.take("@")
            out.append(self.expr(node.decorator))
        return tuple(out)

    def function_head(self, node: cst.FunctionDef) -> tuple[Any, tree.FunctionHead]:
        """The header's span and what it holds; the cursor ends behind the colon."""
        cursor = self.cursor
        decorators = self._decorators(node.decorators)
        start = cursor.here()
        if node.asynchronous is not None:
            cursor.take("async")
        cursor.take("def")
        cursor.take(node.name.value)
        self._type_parameters(node.type_parameters)
        cursor.take("(")
        params = self.params(node.params)
        cursor.take(")")
        returns: tree.Expr | None = None
        if node.returns is not None:
            cursor.take("->")
            returns = self.annotation(node.returns)
        return self._header(start), tree.FunctionHead(params, decorators, returns)

    def class_head(self, node: cst.ClassDef) -> tuple[Any, tree.ClassHead]:
        """The header's span and what it holds; the cursor ends behind the colon."""
        cursor = self.cursor
        decorators = self._decorators(node.decorators)
        start = cursor.take("class")
        cursor.take(node.name.value)
        self._type_parameters(node.type_parameters)
        args: tuple[tree.Arg, ...] = ()
        if isinstance(node.lpar, cst.LeftParen):
            cursor.take("(")
            args = self.args([*node.bases, *node.keywords])
            cursor.take(")")
        bases = tuple([arg.value for arg in args if arg.keyword is None and not arg.star])
        keywords = tuple([arg for arg in args if arg.keyword is not None or arg.star])
        return self._header(start), tree.ClassHead(bases, keywords, decorators)

    def _s_FunctionDef(self, node: cst.FunctionDef, start: int) -> tree.Stmt:
        span, head = self.function_head(node)
        first = self.cursor.span(start, start).line
        body, qualname, yields = self._inner(node)
        asynchronous = node.asynchronous is not None
        last = self.cursor.span(start, self.cursor.pos).end_line
        made = tree.Function(
            span, identifier(node.name.value), qualname, asynchronous, yields, (first, last), head, body
        )
        return made if self.adopt is None else self.adopt(made)

    def _s_ClassDef(self, node: cst.ClassDef, start: int) -> tree.Stmt:
        span, head = self.class_head(node)
        first = self.cursor.span(start, start).line
        body, qualname, _ = self._inner(node)
        last = self.cursor.span(start, self.cursor.pos).end_line
        made = tree.Class(span, identifier(node.name.value), qualname, (first, last), head, body)
        return made if self.adopt is None else self.adopt(made)

    def _inner(self, node: Any) -> tuple[tuple[tree.Stmt, ...], str, bool]:
        """Body and qualified name of a definition, and whether a `yield` stands in its own scope."""
        outer_scope, outer_yields = self.scope, self.yields
        name = identifier(node.name.value)
        qualname = self.scope = f"{outer_scope}.{name}" if outer_scope else name
        self.yields = False
        body = self.suite(node.body)
        yields = self.yields
        self.scope, self.yields = outer_scope, outer_yields
        return body, qualname, yields
