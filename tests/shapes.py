"""Two ways to the same nested tuples: from the lowered tree, and from Python's own `ast`. Used to compare them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from graphlint.lower import tree

_OPS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**", "LShift": "<<",
    "RShift": ">>", "BitOr": "|", "BitAnd": "&", "BitXor": "^", "MatMult": "@", "USub": "-", "UAdd": "+", "Invert": "~",
    "Not": "not", "And": "and", "Or": "or", "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
    "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}  # fmt: skip
_KINDS = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator", ast.DictComp: "dict"}


def _op(node: ast.AST) -> str:
    return _OPS[type(node).__name__]


def _constant(value: object) -> tuple[str, str, str]:
    return ("constant", type(value).__name__, repr(value))


def of_tree(node: Any) -> Any:
    """The shape of a lowered node, tuple or None."""
    t = of_tree
    match node:
        case None | str() | int():
            return node
        case tuple():
            return tuple(t(child) for child in node)
        case tree.FString():
            return ("fstring", t(node.values))
        case tree.Constant():
            return _constant(node.value)
        case tree.Handler():
            return ("Handler", t(node.type), node.name, t(node.body))
        case tree.Case():
            return ("Case", t(node.guard), t(node.body), tuple(sorted(node.names)))
        case tree.Function():
            head = (t(node.params), t(node.decorators), t(node.returns))
            return (
                "Function",
                node.name,
                node.qualname,
                head,
                node.is_async,
                node.is_generator,
                t(node.body),
                node.lines,
            )
        case tree.Class():
            head = (t(node.bases), t(node.keywords), t(node.decorators))
            return ("Class", node.name, node.qualname, head, t(node.body), node.lines)
    names = [name for cls in type(node).__mro__ for name in getattr(cls, "__annotations__", ()) if name != "span"]
    return (type(node).__name__, *[t(getattr(node, name)) for name in names])


class OfAst:
    """The shape of an `ast` tree, as `of_tree` gives it."""

    def __init__(self) -> None:
        self.scope = ""

    def block(self, nodes: list[ast.stmt]) -> tuple[Any, ...]:
        return tuple(self.stmt(node) for node in nodes)

    def exprs(self, nodes: Any) -> tuple[Any, ...]:
        return tuple(self.expr(node) for node in nodes)

    def expr(self, node: Any) -> Any:
        e = self.expr
        match node:
            case None:
                return None
            case ast.Name():
                return ("Name", node.id)
            case ast.Constant():
                return _constant(node.value)
            case ast.JoinedStr():
                return ("fstring", tuple(self.formatted(node)))
            case ast.Attribute():
                return ("Attribute", e(node.value), node.attr)
            case ast.Call():
                return ("Call", e(node.func), self.args([*node.args, *node.keywords]))
            case ast.Subscript():
                return ("Subscript", e(node.value), e(node.slice))
            case ast.Slice():
                return ("Slice", e(node.lower), e(node.upper), e(node.step))
            case ast.Tuple() | ast.List() | ast.Set():
                return (type(node).__name__ + "Expr", self.exprs(node.elts))
            case ast.Dict():
                return ("DictExpr", tuple((e(k), e(v)) for k, v in zip(node.keys, node.values, strict=True)))
            case ast.BinOp():
                return ("BinOp", _op(node.op), e(node.left), e(node.right))
            case ast.UnaryOp():
                return ("UnaryOp", _op(node.op), e(node.operand))
            case ast.BoolOp():
                return ("BoolOp", _op(node.op), self.exprs(node.values))
            case ast.Compare():
                return ("Compare", e(node.left), tuple(map(_op, node.ops)), self.exprs(node.comparators))
            case ast.IfExp():
                return ("IfExp", e(node.test), e(node.body), e(node.orelse))
            case ast.Lambda():
                return ("Lambda", self.params(node.args), e(node.body))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                key, element = (node.key, node.value) if isinstance(node, ast.DictComp) else (None, node.elt)
                clauses = [("Clause", e(c.target), e(c.iter), self.exprs(c.ifs)) for c in node.generators]
                return ("Comprehension", _KINDS[type(node)], e(key), e(element), tuple(clauses))
            case ast.Starred() | ast.Await():
                return (type(node).__name__, e(node.value))
            case ast.Yield() | ast.YieldFrom():
                return ("Yield", e(node.value), isinstance(node, ast.YieldFrom))
            case ast.NamedExpr():
                return ("NamedExpr", e(node.target), e(node.value))
        raise AssertionError(ast.dump(node))

    def formatted(self, node: ast.JoinedStr) -> Iterator[Any]:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield self.expr(part.value)
                if isinstance(part.format_spec, ast.JoinedStr):
                    yield from self.formatted(part.format_spec)

    def args(self, nodes: Any) -> tuple[Any, ...]:
        out = []
        for node in sorted(nodes, key=lambda n: (n.lineno, n.col_offset)):
            if isinstance(node, ast.keyword):
                out.append(("Arg", self.expr(node.value), node.arg, "" if node.arg else "**"))
            elif isinstance(node, ast.Starred):
                out.append(("Arg", self.expr(node.value), None, "*"))
            else:
                out.append(("Arg", self.expr(node), None, ""))
        return tuple(out)

    def params(self, args: ast.arguments) -> tuple[Any, ...]:
        plain = [(a, "positional-only") for a in args.posonlyargs] + [(a, "positional") for a in args.args]
        missing = [None] * (len(plain) - len(args.defaults))
        out = [(a, kind, d) for (a, kind), d in zip(plain, [*missing, *args.defaults], strict=True)]
        if args.vararg:
            out.append((args.vararg, "*", None))
        out += [(a, "keyword-only", d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True)]
        if args.kwarg:
            out.append((args.kwarg, "**", None))
        return tuple(("Param", a.arg, kind, self.expr(a.annotation), self.expr(d)) for a, kind, d in out)

    def stmt(self, node: Any) -> Any:
        e, b = self.expr, self.block
        match node:
            case ast.Expr():
                return ("ExprStmt", e(node.value))
            case ast.Assign():
                return ("Assign", self.exprs(node.targets), e(node.value))
            case ast.AugAssign():
                return ("AugAssign", e(node.target), _op(node.op), e(node.value))
            case ast.AnnAssign():
                return ("AnnAssign", e(node.target), e(node.annotation), e(node.value))
            case ast.Return():
                return ("Return", e(node.value))
            case ast.Raise():
                return ("Raise", e(node.exc), e(node.cause))
            case ast.Assert():
                return ("Assert", e(node.test), e(node.msg))
            case ast.Delete():
                one = node.targets[0]
                single = len(node.targets) == 1 and isinstance(one, (ast.Tuple, ast.List))
                return ("Delete", self.exprs(one.elts if single else node.targets))
            case ast.Pass() | ast.Break() | ast.Continue():
                return (type(node).__name__,)
            case ast.Global() | ast.Nonlocal():
                return (type(node).__name__, tuple(node.names))
            case ast.Import():
                return ("Import", tuple((a.name, a.asname) for a in node.names))
            case ast.ImportFrom():
                return ("ImportFrom", node.module or "", node.level, tuple((a.name, a.asname) for a in node.names))
            case ast.If() | ast.While():
                return (type(node).__name__, e(node.test), b(node.body), b(node.orelse))
            case ast.For() | ast.AsyncFor():
                return ("For", e(node.target), e(node.iter), b(node.body), b(node.orelse))
            case ast.With() | ast.AsyncWith():
                items = tuple(("WithItem", e(i.context_expr), e(i.optional_vars)) for i in node.items)
                return ("With", items, b(node.body))
            case ast.Match():
                return ("Match", e(node.subject), tuple(self.case(c) for c in node.cases))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self.function(node)
            case ast.ClassDef():
                return self.class_(node)
        if type(node).__name__ in ("Try", "TryStar"):
            handlers = tuple(("Handler", e(h.type), h.name, b(h.body)) for h in node.handlers)
            return ("Try", b(node.body), handlers, b(node.orelse), b(node.finalbody))
        raise AssertionError(ast.dump(node))

    def case(self, node: ast.match_case) -> Any:
        names = []
        for inner in ast.walk(node.pattern):
            name = getattr(inner, "rest" if isinstance(inner, ast.MatchMapping) else "name", None)
            if name is not None:
                names.append(name)
        return ("Case", self.expr(node.guard), self.block(node.body), tuple(sorted(names)))

    def _inner(self, node: Any) -> tuple[str, Any, tuple[int, int]]:
        outer = self.scope
        qualname = self.scope = f"{outer}.{node.name}" if outer else node.name
        body = self.block(node.body)
        self.scope = outer
        return qualname, body, (min([node.lineno, *[d.lineno for d in node.decorator_list]]), node.end_lineno)

    def function(self, node: Any) -> Any:
        qualname, body, lines = self._inner(node)
        head = (self.params(node.args), self.exprs(node.decorator_list), self.expr(node.returns))
        return (
            "Function",
            node.name,
            qualname,
            head,
            isinstance(node, ast.AsyncFunctionDef),
            _yields(node),
            body,
            lines,
        )

    def class_(self, node: ast.ClassDef) -> Any:
        qualname, body, lines = self._inner(node)
        bases = self.exprs(x for x in node.bases if not isinstance(x, ast.Starred))
        stars = [x for x in node.bases if isinstance(x, ast.Starred)]
        return (
            "Class",
            node.name,
            qualname,
            (bases, self.args([*stars, *node.keywords]), self.exprs(node.decorator_list)),
            body,
            lines,
        )


def _yields(function: Any) -> bool:
    stack = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stack += node.decorator_list
            continue
        stack += list(ast.iter_child_nodes(node))
    return False


def tree_nodes(node: Any) -> Iterator[tree.Node]:
    """All nodes, those inside f-strings aside (Python before 3.12 places them wrongly)."""
    if isinstance(node, tuple):
        for child in node:
            yield from tree_nodes(child)
    elif isinstance(node, tree.Node):
        yield node
        if isinstance(node, (tree.Function, tree.Class)):
            head = node.head
            yield from tree_nodes(tuple(getattr(head, name) for name in type(head).__annotations__))
            yield from tree_nodes(node.body)
        elif not isinstance(node, tree.FString):
            for cls in type(node).__mro__:
                for name in getattr(cls, "__annotations__", ()):
                    if name != "span":
                        yield from tree_nodes(getattr(node, name))


def ast_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The same of an `ast` tree; of patterns only the values, since the tree keeps no classes and keys of theirs."""
    if isinstance(node, ast.MatchValue):
        yield from ast_nodes(node.value)
    elif isinstance(node, ast.pattern):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.pattern):
                yield from ast_nodes(child)
    else:
        yield node
        if not isinstance(node, ast.JoinedStr):
            for child in ast.iter_child_nodes(node):
                yield from ast_nodes(child)
