"""LibCST expressions to tree expressions. Each method takes its tokens from the cursor in source order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import libcst as cst

from graphlint.lower import tree
from graphlint.lower.leaves import LeafLowerer, identifier

_UNARY = {"Plus": "+", "Minus": "-", "BitInvert": "~", "Not": "not"}
_BINARY = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "FloorDivide": "//",
    "Modulo": "%",
    "Power": "**",
    "LeftShift": "<<",
    "RightShift": ">>",
    "BitOr": "|",
    "BitAnd": "&",
    "BitXor": "^",
    "MatrixMultiply": "@",
}
_COMPARE = {
    "LessThan": ("<",),
    "GreaterThan": (">",),
    "Equal": ("==",),
    "LessThanEqual": ("<=",),
    "GreaterThanEqual": (">=",),
    "In": ("in",),
    "NotIn": ("not", "in"),
    "Is": ("is",),
    "IsNot": ("is", "not"),
}
#: Nodes whose first child stands at their own start. They nest to the left, hundreds deep in real code, so they are
#: unwound in a loop.
_SPINE: dict[type, str] = {
    cst.Attribute: "value",
    cst.Call: "func",
    cst.Subscript: "value",
    cst.BinaryOperation: "left",
}


class ExpressionLowerer(LeafLowerer):
    """Lowers expressions at a cursor."""

    # -------------------------------------------------------------------------------------------- dispatch

    def expr(self, node: Any) -> tree.Expr:
        cursor = self.cursor
        spine: list[tuple[Any, int]] = []
        kind = type(node)
        while (child := _SPINE.get(kind)) is not None:
            for _ in node.lpar:
                cursor.take("(")
            spine.append((node, cursor.here()))
            node = getattr(node, child)
            kind = type(node)
        value = self._plain(node)
        while spine:
            node, start = spine.pop()
            value = self._finish(node, start, value)
            for _ in node.rpar:
                cursor.take(")")
        return value

    def optional(self, node: Any) -> tree.Expr | None:
        return None if node is None else self.expr(node)

    def exprs(self, nodes: Iterable[Any]) -> tuple[tree.Expr, ...]:
        return tuple([self.expr(node) for node in nodes])

    def _plain(self, node: Any) -> tree.Expr:
        """Any expression that does not start with a child of its own kind."""
        cursor = self.cursor
        lpar = getattr(node, "lpar", ())
        paren = 0
        for _ in lpar:
            paren = cursor.take("(")
        start = cursor.here()
        kind = type(node)
        method = self._table.get(kind)
        if method is None:
            method = self._table[kind] = getattr(self, f"_{kind.__name__}", self._unknown)
        value = method(node, start)
        for index in range(len(lpar)):
            cursor.take(")")
            if index == 0 and (kind is cst.Tuple or kind is cst.GeneratorExp):
                # The innermost pair belongs to these two, as in Python's own tree.
                value.span = cursor.span(paren, cursor.pos)
        return value

    def _finish(self, node: Any, start: int, value: tree.Expr) -> tree.Expr:
        cursor = self.cursor
        kind = type(node)
        if kind is cst.Attribute:
            cursor.take(".")
            name = node.attr.value
            cursor.take(name)
            return tree.Attribute(cursor.span(start, cursor.pos), value, identifier(name))
        if kind is cst.Call:
            cursor.take("(")
            args = self.args(node.args)
            cursor.take(")")
            return tree.Call(cursor.span(start, cursor.pos), value, args)
        if kind is cst.Subscript:
            cursor.take("[")
            index = self._index(node.slice)
            cursor.take("]")
            return tree.Subscript(cursor.span(start, cursor.pos), value, index)
        op = _BINARY.get(type(node.operator).__name__, "+")
        cursor.take(op)
        right = self.expr(node.right)
        return tree.BinOp(cursor.span(start, cursor.pos), op, value, right)

    def _unknown(self, node: Any, start: int) -> tree.Expr:
        """An expression that LibCST knows and this table does not yet: stepped over."""
        bare = node.with_changes(lpar=(), rpar=()) if hasattr(node, "lpar") else node
        self.cursor.take(cst.Module(()).code_for_node(bare).strip())
        return tree.Constant(self.cursor.span(start, self.cursor.pos), None)

    # -------------------------------------------------------------------------------------------- operators

    def _UnaryOperation(self, node: cst.UnaryOperation, start: int) -> tree.Expr:
        op = _UNARY.get(type(node.operator).__name__, "not")
        self.cursor.take(op)
        operand = self.expr(node.expression)
        return tree.UnaryOp(self.cursor.span(start, self.cursor.pos), op, operand)

    def _BooleanOperation(self, node: cst.BooleanOperation, start: int) -> tree.Expr:
        kind = type(node.operator)
        op = "and" if kind is cst.And else "or"
        values: list[tree.Expr] = []
        rest: list[Any] = [node.right, node.left]
        while rest:
            child = rest.pop()
            if type(child) is cst.BooleanOperation and type(child.operator) is kind and not child.lpar:
                rest += (child.right, child.left)
                continue
            if values:
                self.cursor.take(op)
            values.append(self.expr(child))
        return tree.BoolOp(self.cursor.span(start, self.cursor.pos), op, tuple(values))

    def _Comparison(self, node: cst.Comparison, start: int) -> tree.Expr:
        left = self.expr(node.left)
        ops: list[str] = []
        comparators: list[tree.Expr] = []
        for target in node.comparisons:
            operator: Any = target.operator
            tokens = _COMPARE.get(type(operator).__name__) or (operator.value,)
            for token in tokens:
                self.cursor.take(token)
            op = " ".join(tokens)
            ops.append("!=" if op == "<>" else op)
            comparators.append(self.expr(target.comparator))
        return tree.Compare(self.cursor.span(start, self.cursor.pos), left, tuple(ops), tuple(comparators))

    def _IfExp(self, node: cst.IfExp, start: int) -> tree.Expr:
        body = self.expr(node.body)
        self.cursor.take("if")
        test = self.expr(node.test)
        self.cursor.take("else")
        orelse = self.expr(node.orelse)
        return tree.IfExp(self.cursor.span(start, self.cursor.pos), test, body, orelse)

    def _NamedExpr(self, node: cst.NamedExpr, start: int) -> tree.Expr:
        target = self.expr(node.target)
        self.cursor.take(":=")
        value = self.expr(node.value)
        return tree.NamedExpr(self.cursor.span(start, self.cursor.pos), target, value)

    def _Await(self, node: cst.Await, start: int) -> tree.Expr:
        self.cursor.take("await")
        value = self.expr(node.expression)
        return tree.Await(self.cursor.span(start, self.cursor.pos), value)

    def _Yield(self, node: cst.Yield, start: int) -> tree.Expr:
        self.yields = True
        self.cursor.take("yield")
        value: Any = node.value
        many = isinstance(value, cst.From)
        if many:
            self.cursor.take("from")
            value = value.item
        lowered = self.optional(value)
        return tree.Yield(self.cursor.span(start, self.cursor.pos), lowered, many)

    def _Lambda(self, node: cst.Lambda, start: int) -> tree.Expr:
        self.cursor.take("lambda")
        params = self.params(node.params)
        self.cursor.take(":")
        outer, self.yields = self.yields, False
        body = self.expr(node.body)
        self.yields = outer
        return tree.Lambda(self.cursor.span(start, self.cursor.pos), params, body)

    # -------------------------------------------------------------------------------------------- displays

    def _elements(self, elements: Iterable[Any]) -> tuple[tree.Expr, ...]:
        items: list[tree.Expr] = []
        for element in elements:
            items.append(self._plain(element) if type(element) is cst.StarredElement else self.expr(element.value))
            if type(element.comma) is cst.Comma:
                self.cursor.take(",")
        return tuple(items)

    def _StarredElement(self, node: cst.StarredElement, start: int) -> tree.Expr:
        self.cursor.take("*")
        value = self.expr(node.value)
        return tree.Starred(self.cursor.span(start, self.cursor.pos), value)

    def _Tuple(self, node: cst.Tuple, start: int) -> tree.Expr:
        items = self._elements(node.elements)
        return tree.TupleExpr(self.cursor.span(start, self.cursor.pos), items)

    def _List(self, node: cst.List, start: int) -> tree.Expr:
        self.cursor.take("[")
        items = self._elements(node.elements)
        self.cursor.take("]")
        return tree.ListExpr(self.cursor.span(start, self.cursor.pos), items)

    def _Set(self, node: cst.Set, start: int) -> tree.Expr:
        self.cursor.take("{")
        items = self._elements(node.elements)
        self.cursor.take("}")
        return tree.SetExpr(self.cursor.span(start, self.cursor.pos), items)

    def _Dict(self, node: cst.Dict, start: int) -> tree.Expr:
        cursor = self.cursor
        cursor.take("{")
        items: list[tuple[tree.Expr | None, tree.Expr]] = []
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                key: tree.Expr | None = self.expr(element.key)
                cursor.take(":")
            else:
                key = None
                cursor.take("**")
            items.append((key, self.expr(element.value)))
            if type(element.comma) is cst.Comma:
                cursor.take(",")
        cursor.take("}")
        return tree.DictExpr(cursor.span(start, cursor.pos), tuple(items))

    def _GeneratorExp(self, node: Any, start: int) -> tree.Expr:
        return self._comprehension(node, start, "generator", "")

    def _ListComp(self, node: Any, start: int) -> tree.Expr:
        return self._comprehension(node, start, "list", "[]")

    def _SetComp(self, node: Any, start: int) -> tree.Expr:
        return self._comprehension(node, start, "set", "{}")

    def _DictComp(self, node: Any, start: int) -> tree.Expr:
        return self._comprehension(node, start, "dict", "{}")

    _StarredDictComp = _DictComp

    def _comprehension(self, node: Any, start: int, kind: str, brackets: str) -> tree.Expr:
        cursor = self.cursor
        key: tree.Expr | None = None
        if brackets:
            cursor.take(brackets[0])
        if kind != "dict":
            element = self.expr(node.elt)
        else:
            if hasattr(node, "key"):
                key = self.expr(node.key)
                cursor.take(":")
            else:
                cursor.take("**")
            element = self.expr(node.value)
        clauses: list[tree.Clause] = []
        clause: Any = node.for_in
        while clause is not None:
            clauses.append(self._clause(clause))
            clause = clause.inner_for_in
        if brackets:
            cursor.take(brackets[1])
        return tree.Comprehension(cursor.span(start, cursor.pos), kind, key, element, tuple(clauses))

    def _clause(self, node: cst.CompFor) -> tree.Clause:
        cursor = self.cursor
        start = cursor.here()
        if node.asynchronous is not None:
            cursor.take("async")
        cursor.take("for")
        target = self.expr(node.target)
        cursor.take("in")
        iterable = self.expr(node.iter)
        ifs: list[tree.Expr] = []
        for condition in node.ifs:
            cursor.take("if")
            ifs.append(self.expr(condition.test))
        return tree.Clause(cursor.span(start, cursor.pos), target, iterable, tuple(ifs))

    # -------------------------------------------------------------------------------------------- pieces

    def args(self, nodes: Iterable[Any]) -> tuple[tree.Arg, ...]:
        cursor = self.cursor
        args: list[tree.Arg] = []
        for node in nodes:
            start = cursor.here()
            keyword: str | None = None
            if node.star:
                cursor.take(node.star)
            if node.keyword is not None:
                keyword = node.keyword.value
                cursor.take(keyword)
                cursor.take("=")
            value = self.expr(node.value)
            name = None if keyword is None else identifier(keyword)
            args.append(tree.Arg(cursor.span(start, cursor.pos), value, name, node.star))
            if type(node.comma) is cst.Comma:
                cursor.take(",")
        return tuple(args)

    def _index(self, nodes: Any) -> tree.Expr:
        cursor = self.cursor
        first = cursor.here()
        items: list[tree.Expr] = []
        comma = False
        for node in nodes:
            items.append(self._slice(node.slice))
            comma = type(node.comma) is cst.Comma
            if comma:
                cursor.take(",")
        if len(items) == 1 and not comma and not isinstance(items[0], tree.Starred):
            return items[0]
        return tree.TupleExpr(cursor.span(first, cursor.pos), tuple(items))

    def _slice(self, node: Any) -> tree.Expr:
        cursor = self.cursor
        start = cursor.here()
        if type(node) is cst.Index:
            if not node.star:
                return self.expr(node.value)
            cursor.take("*")
            value = self.expr(node.value)
            return tree.Starred(cursor.span(start, cursor.pos), value)
        lower = self.optional(node.lower)
        cursor.take(":")
        upper = self.optional(node.upper)
        if type(node.second_colon) is cst.Colon:
            cursor.take(":")
        step = self.optional(node.step)
        return tree.Slice(cursor.span(start, cursor.pos), lower, upper, step)

    def params(self, node: cst.Parameters) -> tuple[tree.Param, ...]:
        cursor = self.cursor
        params: list[tree.Param] = [self._param(p, "positional-only") for p in node.posonly_params]
        if isinstance(node.posonly_ind, cst.ParamSlash):
            cursor.take("/")
            if type(node.posonly_ind.comma) is cst.Comma:
                cursor.take(",")
        params += [self._param(p, "positional") for p in node.params]
        if isinstance(node.star_arg, cst.ParamStar):
            cursor.take("*")
            cursor.take(",")
        elif isinstance(node.star_arg, cst.Param):
            params.append(self._param(node.star_arg, "*"))
        params += [self._param(p, "keyword-only") for p in node.kwonly_params]
        if node.star_kwarg is not None:
            params.append(self._param(node.star_kwarg, "**"))
        return tuple(params)

    def _param(self, node: cst.Param, kind: str) -> tree.Param:
        cursor = self.cursor
        start = cursor.here()
        if kind in ("*", "**"):
            cursor.take(kind)
        cursor.take(node.name.value)
        annotation: tree.Expr | None = None
        default: tree.Expr | None = None
        if node.annotation is not None:
            cursor.take(":")
            annotation = self.annotation(node.annotation)
        if node.default is not None:
            cursor.take("=")
            default = self.expr(node.default)
        name = identifier(node.name.value)
        param = tree.Param(cursor.span(start, cursor.pos), name, kind, annotation, default)
        if type(node.comma) is cst.Comma:
            cursor.take(",")
        return param

    def annotation(self, node: cst.Annotation) -> tree.Expr:
        """The annotation's expression, its `:` or `->` taken already; `*args: *Ts` is a Starred."""
        return self.expr(node.annotation)
