"""The statements of a running file: what each line loads and stores, and which loops and handlers are around it.

A chain is a name with attributes and items behind it, as far as it can be followed without calling anything:
`self.temperature`, `group["lr"]`, `meta.lengths[0]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

MUTATORS = frozenset(
    [
        "append",
        "extend",
        "insert",
        "add",
        "update",
        "appendleft",
        "put",
        "put_nowait",
        "setdefault",
        "pop",
        "popleft",
        "clear",
        "remove",
        "discard",
    ]
)
#: Methods of tensors, graphs and lists, and builtins, that give no place another tensor.
_QUIET = frozenset(
    [
        "append",
        "argmax",
        "clone",
        "copy_",
        "detach",
        "enumerate",
        "expand",
        "fill_",
        "float",
        "int",
        "item",
        "len",
        "list",
        "max",
        "mean",
        "min",
        "norm",
        "permute",
        "print",
        "range",
        "replay",
        "reshape",
        "size",
        "squeeze",
        "str",
        "sum",
        "synchronize",
        "transpose",
        "tuple",
        "unsqueeze",
        "view",
        "wait_stream",
        "zero_",
        "zip",
    ]
)
KEEPERS = frozenset(["append", "extend", "insert", "add", "appendleft", "put", "put_nowait"])


@dataclass(frozen=True, slots=True)
class Chain:
    """`steps` are ("attr", name), ("item", constant) or ("key", name of a variable)."""

    root: str
    steps: tuple[tuple[str, Any], ...] = ()

    @property
    def text(self) -> str:
        out = self.root
        for kind, value in self.steps:
            out += f".{value}" if kind == "attr" else f"[{value}]" if kind == "key" else f"[{value!r}]"
        return out

    @property
    def owner(self) -> Chain:
        return Chain(self.root, self.steps[:-1])


@dataclass(slots=True, eq=False)
class Statement:
    """One statement; for a compound one only its header. `handler` is the `except` line that it stands in."""

    node: ast.stmt
    first: int
    last: int
    loads: tuple[Chain, ...] = ()
    stores: tuple[Chain, ...] = ()
    names: tuple[str, ...] = ()
    """Names that it binds."""
    mutated: tuple[tuple[Chain, str], ...] = ()
    """Receivers of `append` and its like, with the method."""
    calls: tuple[ast.Call, ...] = ()
    handler: int | None = None
    loops: tuple[int, ...] = ()
    function: int = 0
    augmented: bool = False
    nonlocals: frozenset[str] = frozenset()
    branches: bool = False
    quiet: bool = False
    """Whether all that it calls leaves every place as it is."""

    @property
    def touches(self) -> bool:
        """Whether it can rebind or drop something that outlives it."""
        return bool(self.stores or self.calls or self.names or isinstance(self.node, (ast.Delete, ast.Return)))


def chain_of(node: Any) -> Chain | None:
    """The chain that an expression is, None if it is none."""
    steps: list[tuple[str, Any]] = []
    while True:
        if isinstance(node, ast.Attribute):
            steps.append(("attr", node.attr))
            node = node.value
        elif isinstance(node, ast.Subscript):
            key: Any = node.slice
            if isinstance(key, ast.Constant):
                steps.append(("item", key.value))
            elif (
                isinstance(key, ast.UnaryOp) and isinstance(key.operand, ast.Constant) and isinstance(key.op, ast.USub)
            ):
                number: Any = key.operand.value
                steps.append(("item", -number))
            elif isinstance(key, ast.Name):
                steps.append(("key", key.id))
            elif isinstance(key, ast.Tuple) and all(isinstance(e, (ast.Name, ast.Constant)) for e in key.elts):
                parts: list[Any] = key.elts
                steps.append(("keys", tuple(e.id if isinstance(e, ast.Name) else ("=", e.value) for e in parts)))
            else:
                return None
            node = node.value
        elif isinstance(node, ast.Name):
            return Chain(node.id, tuple(reversed(steps)))
        else:
            return None


def _is_quiet(call: ast.Call) -> bool:
    name = call.func
    if isinstance(name, ast.Attribute):
        return name.attr in _QUIET or (isinstance(name.value, ast.Name) and name.value.id == "torch")
    return isinstance(name, ast.Name) and name.id in _QUIET


def _header(node: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement without its body."""
    if isinstance(node, (ast.If, ast.While)):
        return [node.test]
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.target, node.iter]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [e for item in node.items for e in (item.context_expr, item.optional_vars) if e is not None]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return list(node.decorator_list)
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
        return []
    return [node]


def _loads(roots: list[ast.AST]) -> Iterator[tuple[Chain, ast.AST]]:
    stack = list(roots)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Lambda, ast.FunctionDef, ast.ClassDef)):
            continue
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Load):
            chain = chain_of(node)
            if chain is not None:
                yield chain, node
                stack += [node.slice] if isinstance(node, ast.Subscript) else []
                continue
        stack += list(ast.iter_child_nodes(node))


def _targets(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For, ast.AsyncFor)):
        return [node.target]
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return [i.optional_vars for i in node.items if i.optional_vars is not None]
    if isinstance(node, ast.Delete):
        return node.targets
    return []


def _flat_targets(targets: list[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, (ast.Tuple, ast.List)):
            yield from _flat_targets(target.elts)
        elif isinstance(target, ast.Starred):
            yield from _flat_targets([target.value])
        else:
            yield target


@dataclass(slots=True)
class File:
    lines: dict[int, Statement] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)


class _Reader:
    def __init__(self, file: File) -> None:
        self.file = file

    def read(
        self, body: list[ast.stmt], loops: tuple[int, ...], handler: int | None, function: int, outer: frozenset[str]
    ) -> None:
        for node in body:
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                outer = outer | frozenset(node.names)
        for node in body:
            self.one(node, loops, handler, function, outer)

    def one(
        self, node: ast.stmt, loops: tuple[int, ...], handler: int | None, function: int, outer: frozenset[str]
    ) -> None:
        roots = _header(node)
        inner: list[list[ast.stmt]] = [
            getattr(node, part)
            for part in ("body", "orelse", "finalbody")
            if isinstance(getattr(node, part, None), list)
        ]
        cases = [c.body for c in getattr(node, "cases", ())]
        first = node.lineno
        last = getattr(node, "end_lineno", first) or first
        if inner and inner[0]:
            last = max(first, inner[0][0].lineno - 1)
        stores, names = [], []
        for target in _flat_targets(_targets(node)):
            if isinstance(target, ast.Name):
                names.append(target.id)
            else:
                chain = chain_of(target)
                if chain is not None:
                    stores.append(chain)
        calls = [n for root in roots for n in ast.walk(root) if isinstance(n, ast.Call)]
        mutated = []
        receivers = set()
        for call in calls:
            if isinstance(call.func, ast.Attribute) and call.func.attr in MUTATORS:
                chain = chain_of(call.func.value)
                if chain is not None:
                    mutated.append((chain, call.func.attr))
                    receivers.add(id(call.func))
        loads = tuple(dict.fromkeys(c for c, n in _loads(roots) if id(n) not in receivers))
        statement = Statement(
            node,
            first,
            last,
            loads,
            tuple(stores),
            tuple(names),
            tuple(mutated),
            tuple(calls),
            handler,
            loops,
            function,
            isinstance(node, ast.AugAssign),
            outer,
            isinstance(node, (ast.If, ast.While, ast.Assert))
            or any(isinstance(n, (ast.IfExp, ast.BoolOp)) for root in roots for n in ast.walk(root)),
            all(_is_quiet(call) for call in calls),
        )
        for line in range(first, last + 1):
            self.file.lines[line] = statement
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.read(node.body, (), None, node.lineno, frozenset())
            return
        around = (*loops, node.lineno) if isinstance(node, (ast.For, ast.AsyncFor, ast.While)) else loops
        for body in [*inner, *cases]:
            self.read(body, around, handler, function, outer)
        for clause in getattr(node, "handlers", ()):
            self.read(clause.body, loops, clause.lineno, function, outer)


@lru_cache(maxsize=512)
def file_of(path: str) -> File:
    """The statements of a file; empty if it cannot be read."""
    file = File()
    try:
        text = Path(path).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return file
    file.text = text.splitlines()
    _Reader(file).read(tree.body, (), None, 0, frozenset())
    return file


def statement_at(path: str, line: int) -> Statement | None:
    return file_of(path).lines.get(line)


_CACHES = frozenset(["cache", "lru_cache", "cached_property", "cached_method"])


@lru_cache(maxsize=4096)
def cached_at(path: str, first: int, name: str) -> int | None:
    """The `def` line of a function (whose code begins at `first`) that a caching decorator wraps, else None."""
    for line in range(first, first + 8):
        statement = statement_at(path, line)
        node = statement.node if statement is not None else None
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for decorator in node.decorator_list:
                function: Any = decorator.func if isinstance(decorator, ast.Call) else decorator
                if getattr(function, "attr", getattr(function, "id", "")) in _CACHES:
                    return node.lineno
            return None
    return None
