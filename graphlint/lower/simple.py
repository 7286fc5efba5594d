"""Statements without a body of their own, imports among them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import libcst as cst

from graphlint.lower import tree
from graphlint.lower.expressions import ExpressionLowerer
from graphlint.lower.leaves import identifier

_AUGMENTED = {
    "AddAssign": "+",
    "SubtractAssign": "-",
    "MultiplyAssign": "*",
    "MatrixMultiplyAssign": "@",
    "DivideAssign": "/",
    "ModuloAssign": "%",
    "BitAndAssign": "&",
    "BitOrAssign": "|",
    "BitXorAssign": "^",
    "LeftShiftAssign": "<<",
    "RightShiftAssign": ">>",
    "PowerAssign": "**",
    "FloorDivideAssign": "//",
}


class SimpleLowerer(ExpressionLowerer):
    """Lowers simple statements at a cursor."""

    def _s_Expr(self, node: cst.Expr, start: int) -> tree.Stmt:
        value = self.expr(node.value)
        return tree.ExprStmt(self.cursor.span(start, self.cursor.pos), value)

    def _s_Assign(self, node: cst.Assign, start: int) -> tree.Stmt:
        targets: list[tree.Expr] = []
        for target in node.targets:
            targets.append(self.expr(target.target))
            self.cursor.take("=")
        value = self.expr(node.value)
        return tree.Assign(self.cursor.span(start, self.cursor.pos), tuple(targets), value)

    def _s_AugAssign(self, node: cst.AugAssign, start: int) -> tree.Stmt:
        target = self.expr(node.target)
        op = _AUGMENTED.get(type(node.operator).__name__, "+")
        self.cursor.take(op + "=")
        value = self.expr(node.value)
        return tree.AugAssign(self.cursor.span(start, self.cursor.pos), target, op, value)

    def _s_AnnAssign(self, node: cst.AnnAssign, start: int) -> tree.Stmt:
        target = self.expr(node.target)
        self.cursor.take(":")
        annotation = self.annotation(node.annotation)
        value: tree.Expr | None = None
        if node.value is not None:
            self.cursor.take("=")
            value = self.expr(node.value)
        return tree.AnnAssign(self.cursor.span(start, self.cursor.pos), target, annotation, value)

    def _s_TypeAlias(self, node: cst.TypeAlias, start: int) -> tree.Stmt:
        self.cursor.take("type")
        target = self.expr(node.name)
        self._type_parameters(node.type_parameters)
        self.cursor.take("=")
        value = self.expr(node.value)
        return tree.Assign(self.cursor.span(start, self.cursor.pos), (target,), value)

    def _s_Return(self, node: cst.Return, start: int) -> tree.Stmt:
        self.cursor.take("return")
        value = self.optional(node.value)
        return tree.Return(self.cursor.span(start, self.cursor.pos), value)

    def _s_Raise(self, node: cst.Raise, start: int) -> tree.Stmt:
        self.cursor.take("raise")
        exc = self.optional(node.exc)
        cause: tree.Expr | None = None
        if node.cause is not None:
            self.cursor.take("from")
            cause = self.expr(node.cause.item)
        return tree.Raise(self.cursor.span(start, self.cursor.pos), exc, cause)

    def _s_Assert(self, node: cst.Assert, start: int) -> tree.Stmt:
        self.cursor.take("assert")
        test = self.expr(node.test)
        message: tree.Expr | None = None
        if node.msg is not None:
            self.cursor.take(",")
            message = self.expr(node.msg)
        return tree.Assert(self.cursor.span(start, self.cursor.pos), test, message)

    def _s_Del(self, node: cst.Del, start: int) -> tree.Stmt:
        self.cursor.take("del")
        target = self.expr(node.target)
        targets = target.items if isinstance(target, (tree.TupleExpr, tree.ListExpr)) else (target,)
        return tree.Delete(self.cursor.span(start, self.cursor.pos), targets)

    def _s_Pass(self, node: cst.Pass, start: int) -> tree.Stmt:
        self.cursor.take("pass")
        return tree.Pass(self.cursor.span(start, self.cursor.pos))

    def _s_Break(self, node: cst.Break, start: int) -> tree.Stmt:
        self.cursor.take("break")
        return tree.Break(self.cursor.span(start, self.cursor.pos))

    def _s_Continue(self, node: cst.Continue, start: int) -> tree.Stmt:
        self.cursor.take("continue")
        return tree.Continue(self.cursor.span(start, self.cursor.pos))

    def _s_Global(self, node: cst.Global, start: int) -> tree.Stmt:
        names = self._names("global", node.names)
        return tree.Global(self.cursor.span(start, self.cursor.pos), names)

    def _s_Nonlocal(self, node: cst.Nonlocal, start: int) -> tree.Stmt:
        names = self._names("nonlocal", node.names)
        return tree.Nonlocal(self.cursor.span(start, self.cursor.pos), names)

    def _names(self, keyword: str, items: Iterable[cst.NameItem]) -> tuple[str, ...]:
        self.cursor.take(keyword)
        for index, item in enumerate(items):
            if index:
                self.cursor.take(",")
            self.cursor.take(item.name.value)
        return tuple([identifier(item.name.value) for item in items])

    # -------------------------------------------------------------------------------------------- imports

    def _s_Import(self, node: Any, start: int) -> tree.Stmt:
        if type(node) is not cst.Import:
            self.cursor.take("lazy")
        self.cursor.take("import")
        names = self._aliases(node.names)
        return tree.Import(self.cursor.span(start, self.cursor.pos), names)

    def _s_ImportFrom(self, node: Any, start: int) -> tree.Stmt:
        cursor = self.cursor
        if type(node) is not cst.ImportFrom:
            cursor.take("lazy")
        cursor.take("from")
        for _ in node.relative:
            cursor.take(".")
        module = "" if node.module is None else self._dotted(node.module)
        cursor.take("import")
        if isinstance(node.names, cst.ImportStar):
            cursor.take("*")
            names: tuple[tuple[str, str | None], ...] = (("*", None),)
        else:
            if node.lpar is not None:
                cursor.take("(")
            names = self._aliases(node.names)
            if node.rpar is not None:
                cursor.take(")")
        return tree.ImportFrom(cursor.span(start, cursor.pos), module, len(node.relative), names)

    _s_LazyImport = _s_Import
    _s_LazyImportFrom = _s_ImportFrom

    def _aliases(self, nodes: Iterable[cst.ImportAlias]) -> tuple[tuple[str, str | None], ...]:
        names: list[tuple[str, str | None]] = []
        for node in nodes:
            name = self._dotted(node.name)
            alias: str | None = None
            if node.asname is not None:
                self.cursor.take("as")
                bound = self.expr(node.asname.name)
                alias = bound.id if isinstance(bound, tree.Name) else None
            names.append((name, alias))
            if type(node.comma) is cst.Comma:
                self.cursor.take(",")
        return tuple(names)

    def _dotted(self, node: Any) -> str:
        parts: list[str] = []
        while isinstance(node, cst.Attribute):
            parts.append(node.attr.value)
            node = node.value
        parts.append(node.value)
        parts.reverse()
        for index, part in enumerate(parts):
            if index:
                self.cursor.take(".")
            self.cursor.take(part)
        return identifier(".".join(parts))

    def _type_parameters(self, node: Any) -> None:
        if node is None:
            return
        cursor = self.cursor
        cursor.take("[")
        for item in node.params:
            if isinstance(item.param, cst.TypeVarTuple):
                cursor.take("*")
            elif isinstance(item.param, cst.ParamSpec):
                cursor.take("**")
            cursor.take(item.param.name.value)
            if (bound := getattr(item.param, "bound", None)) is not None:
                cursor.take(":")
                self.expr(bound)
            if (default := getattr(item, "default", None)) is not None:
                cursor.take("=")
                if item.star:
                    cursor.take(item.star)
                self.expr(default)
            if type(item.comma) is cst.Comma:
                cursor.take(",")
        cursor.take("]")
