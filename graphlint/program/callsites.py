"""Where a file calls what, by the last part of the callee's name."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from graphlint.lower import tree
from graphlint.program.index import dotted
from graphlint.source import Source


@dataclass(frozen=True, slots=True, order=True)
class CallSite:
    """`receiver.name(...)` or a decorator: place of the call's first character (line and code-point column from 1),
    qualified name of the function or class around it ("" at module level), and the receiver as text ("" if none)."""

    line: int
    column: int
    function: str
    receiver: str


def from_ast(source: Source, module: ast.Module) -> dict[str, tuple[CallSite, ...]]:
    """All calls of a file by name."""
    found: dict[str, list[CallSite]] = {}
    ascii_only = source.text.isascii()

    def add(callee: ast.expr, at: ast.expr, scope: str) -> None:
        if isinstance(callee, ast.Attribute):
            name, receiver = callee.attr, dotted(callee.value)
        elif isinstance(callee, ast.Name):
            name, receiver = callee.id, ""
        else:
            return
        column = at.col_offset
        if not ascii_only and column:
            column = len(source.lines[at.lineno - 1].encode("utf-8")[:column].decode("utf-8", "replace"))
        found.setdefault(name, []).append(CallSite(at.lineno, column + 1, scope, receiver))

    stack: list[tuple[ast.AST, str]] = [(node, "") for node in module.body]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for decorator in node.decorator_list:
                if not isinstance(decorator, ast.Call):
                    add(decorator, decorator, scope)
                stack.append((decorator, scope))
            inner = f"{scope}.{node.name}" if scope else node.name
            stack += [(child, inner) for child in node.body]
            outside = ("body", "decorator_list")
            for key, value in ast.iter_fields(node):
                if key not in outside:
                    stack += [(c, scope) for c in (value if isinstance(value, list) else [value]) if _is_node(c)]
            continue
        if isinstance(node, ast.Call):
            add(node.func, node, scope)
        stack += [(child, scope) for child in ast.iter_child_nodes(node)]
    return {name: tuple(sorted(sites)) for name, sites in found.items()}


def from_tree(body: Iterable[tree.Stmt]) -> dict[str, tuple[CallSite, ...]]:
    """The same from lowered statements."""
    found: dict[str, list[CallSite]] = {}

    def add(callee: tree.Expr, at: tree.Expr, scope: str) -> None:
        if isinstance(callee, tree.Attribute):
            name, receiver = callee.name, text(callee.value)
        elif isinstance(callee, tree.Name):
            name, receiver = callee.id, ""
        else:
            return
        found.setdefault(name, []).append(CallSite(at.span.line, at.span.column, scope, receiver))

    stack: list[tuple[Any, str]] = [(statement, "") for statement in body]
    while stack:
        node, scope = stack.pop()
        if isinstance(node, tuple):
            stack += [(child, scope) for child in node]
        elif isinstance(node, (tree.Function, tree.Class)):
            for decorator in node.decorators:
                if not isinstance(decorator, tree.Call):
                    add(decorator, decorator, scope)
            stack += [(getattr(node.head, f.name), scope) for f in dataclasses.fields(node.head)]
            stack.append((node.body, node.qualname))
        elif isinstance(node, tree.Node):
            if isinstance(node, tree.Call):
                add(node.func, node, scope)
            stack += [(getattr(node, f.name), scope) for f in dataclasses.fields(node) if f.name != "span"]
    return {name: tuple(sorted(sites)) for name, sites in found.items()}


def text(node: tree.Expr) -> str:
    """A dotted receiver as text, as `index.dotted`."""
    parts: list[str] = []
    while True:
        if isinstance(node, tree.Attribute):
            parts.append("." + node.name)
            node = node.value
        elif isinstance(node, tree.Name):
            parts.append(node.id)
            return "".join(reversed(parts))
        elif isinstance(node, tree.Call):
            parts.append("()")
            node = node.func
        elif isinstance(node, tree.Subscript):
            parts.append("[]")
            node = node.value
        else:
            return ""


def _is_node(value: object) -> bool:
    return isinstance(value, ast.AST)
