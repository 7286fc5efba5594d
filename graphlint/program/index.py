"""What stands where in a file, told by `ast` at a tenth of LibCST's price: definitions, imports, plain statements.

Glossary:
    entry  a `def` or `class`: names, lines, header span, and how its body can be lowered
    item   a statement of a module's or class's body, or one nested in its `if`, `try`, `with`, `for`, `while` blocks
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from graphlint.lower import tree
from graphlint.source import Source, SourceError, Span

_Def: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_HEADER_END = re.compile(r"(?:[ \t\f\r\n]+|\\\r?\n|#[^\r\n]*|[(),/*\]])*:")
_YIELD = re.compile(r"yield")
_DEFINITION = re.compile(r"\b(?:def|class)\b")
_NAME = re.compile(r"(?:async|def|class|[ \t\f\r\n]+|\\\r?\n)*\b\w+")


@dataclass(slots=True, eq=False)
class Entry:
    """A definition. `body` is (first line, last line); `inline` bodies stand on the header's line."""

    name: str
    qualname: str
    is_class: bool
    lines: tuple[int, int]
    header: Span
    body: tuple[int, int]
    inline: bool
    parent: Entry | None
    is_async: bool = False
    is_generator: bool = False
    decorators: tuple[str, ...] = ()
    bare: bool = False
    """It has no decorators."""
    items: tuple[Item, ...] = ()
    stub: tree.Function | tree.Class | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class Item:
    """A statement: where it starts, the lines it takes, the names it binds itself (not those of `children`).

    kind: "def", "import", "star", "assign", "compound" or "other".
    fallback: it stands in an `except` handler or an `else` part, so another binding of the name comes first.
    statement: the lowered statement, for imports at once, else after first use.
    """

    kind: str
    first: int
    last: int
    line: int
    column: int
    binds: tuple[str, ...] = ()
    entry: Entry | None = None
    children: tuple[Item, ...] = ()
    fallback: bool = False
    statement: tree.Stmt | None = None

    @property
    def holds_definitions(self) -> bool:
        return any(child.entry is not None or child.holds_definitions for child in self.children)


@dataclass(slots=True)
class Index:
    """`entries` are in source order; `exported` is `__all__` if it is a literal; `docs` are the lines of strings that
    stand alone, such as docstrings."""

    items: tuple[Item, ...]
    entries: tuple[Entry, ...]
    exported: tuple[str, ...] | None
    docs: tuple[tuple[int, int], ...] = ()


def parse(source: Source) -> ast.Module:
    """`ast.parse` with one kind of error.

    Raises:
        SourceError: one line; `.__cause__` is None.
        SyntaxError: this Python's grammar does not know the text.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source.text)
    except (RecursionError, MemoryError):
        raise SourceError("nested too deeply") from None
    except ValueError as error:
        raise SourceError(f"cannot be parsed: {error}") from None


def build(source: Source, module: ast.Module) -> Index:
    builder = _Builder(source)
    items = tuple(builder.items(module.body, None))
    entries = sorted(builder.entries, key=lambda entry: entry.lines[0])
    return Index(items, tuple(entries), _exported(module), tuple(builder.docs))


def flat(items: Iterable[Item]) -> Iterator[Item]:
    """Items with those nested in them, in source order."""
    for item in items:
        yield item
        yield from flat(item.children)


def _lines_with(pattern: re.Pattern[str], source: Source) -> list[int]:
    """The lines of the matches of `pattern`, ascending."""
    return [bisect_right(source.line_starts, match.start()) for match in pattern.finditer(source.text)]


class _Builder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.entries: list[Entry] = []
        self.docs: list[tuple[int, int]] = []
        self.ascii = source.text.isascii()
        self.yields = _lines_with(_YIELD, source)
        self.definitions = _lines_with(_DEFINITION, source)

    # ---------------------------------------------------------------------------------------- positions

    def column(self, line: int, offset: int) -> int:
        """Code-point column from 1 of ast's UTF-8 offset."""
        if self.ascii or offset == 0:
            return offset + 1
        return len(self.source.lines[line - 1].encode("utf-8")[:offset].decode("utf-8", "replace")) + 1

    def place(self, line: int, offset: int) -> int:
        """Offset in the text."""
        return self.source.line_starts[line - 1] + self.column(line, offset) - 1

    def span(self, node: ast.stmt | ast.expr) -> Span:
        end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or 0
        return Span(node.lineno, self.column(node.lineno, node.col_offset), end_line, self.column(end_line, end_offset))

    def header(self, node: _Def) -> Span:
        """From `def` or `class` to the colon."""
        text = self.source.text
        start = self.place(node.lineno, node.col_offset)
        name = _NAME.match(text, start)
        end = name.end() if name else start
        parts: list[ast.expr | ast.arg | ast.keyword] = [*getattr(node, "type_params", ())]
        if isinstance(node, ast.ClassDef):
            parts += [*node.bases, *node.keywords]
        else:
            args = node.args
            parts += [*args.posonlyargs, *args.args, *args.kwonlyargs, *args.defaults]
            parts += [default for default in args.kw_defaults if default is not None]
            parts += [extra for extra in (args.vararg, args.kwarg, node.returns) if extra is not None]
        for part in parts:
            if part.end_lineno is not None and part.end_col_offset is not None:
                end = max(end, self.place(part.end_lineno, part.end_col_offset))
        colon = _HEADER_END.match(text, end)
        end = colon.end() if colon else end
        line, base = node.lineno, self.source.line_starts[node.lineno - 1]
        starts = self.source.line_starts
        last = line
        while last < len(starts) and starts[last] < end:
            last += 1
        return Span(line, start - base + 1, last, end - starts[last - 1] + 1)

    # ---------------------------------------------------------------------------------------- statements

    def items(self, body: list[ast.stmt], parent: Entry | None, fallback: bool = False) -> list[Item]:
        return [self.item(node, parent, fallback) for node in body]

    def item(self, node: ast.stmt, parent: Entry | None, fallback: bool) -> Item:
        line, last = node.lineno, node.end_lineno or node.lineno
        column = self.column(line, node.col_offset)
        if isinstance(node, _DEFS):
            entry = self.entry(node, parent)
            return Item("def", entry.lines[0], last, line, column, (node.name,), entry, fallback=fallback)
        item = Item("other", line, last, line, column, fallback=fallback)
        if isinstance(node, ast.Import):
            item.kind = "import"
            item.binds = tuple([a.asname or a.name.partition(".")[0] for a in node.names])
            item.statement = tree.Import(self.span(node), tuple([(a.name, a.asname) for a in node.names]))
        elif isinstance(node, ast.ImportFrom):
            star = node.names[0].name == "*"
            item.kind = "star" if star else "import"
            item.binds = () if star else tuple([a.asname or a.name for a in node.names])
            names = tuple([(a.name, a.asname) for a in node.names])
            item.statement = tree.ImportFrom(self.span(node), node.module or "", node.level, names)
        elif isinstance(node, ast.Assign):
            item.kind, item.binds = "assign", tuple(_targets(node.targets))
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)):
            item.kind, item.binds = "assign", tuple(_targets([node.target]))
        elif type(node).__name__ == "TypeAlias":
            item.kind, item.binds = "assign", (node.name.id,)  # type: ignore[attr-defined]
        elif isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                self.docs.append((line, last))
        else:
            self.compound(node, parent, item)
        return item

    def compound(self, node: ast.stmt, parent: Entry | None, item: Item) -> None:
        """Fills in the blocks of a statement that has any."""
        low = item.fallback
        children: list[Item] = []
        if isinstance(node, ast.If):
            # A chain of elifs nests without end: walked in a loop.
            arm: ast.If | None = node
            while arm is not None:
                children += self.items(arm.body, parent, low or arm is not node)
                rest = arm.orelse
                arm = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
                if arm is None:
                    children += self.items(rest, parent, True)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
            if not isinstance(node, ast.While):
                item.binds = tuple(_targets([node.target]))
            children += self.items(node.body, parent, low) + self.items(node.orelse, parent, True)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            item.binds = tuple(_targets([w.optional_vars for w in node.items if w.optional_vars is not None]))
            children += self.items(node.body, parent, low)
        elif isinstance(node, ast.Match):
            for case in node.cases:
                children += self.items(case.body, parent, True)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            children += self.items(node.body, parent, low)  # type: ignore[attr-defined]
            for handler in node.handlers:  # type: ignore[attr-defined]
                children += self.items(handler.body, parent, True)
            for block in (node.orelse, node.finalbody):  # type: ignore[attr-defined]
                children += self.items(block, parent, low)
        else:
            return
        item.kind, item.children = "compound", tuple(children)

    def entry(self, node: _Def, parent: Entry | None) -> Entry:
        first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
        last = node.end_lineno or node.lineno
        header = self.header(node)
        start = node.body[0]
        inline = start.lineno == header.end_line and start.col_offset > node.col_offset
        begin = min([start.lineno, *[d.lineno for d in getattr(start, "decorator_list", ())]])
        is_class = isinstance(node, ast.ClassDef)
        entry = Entry(
            node.name,
            f"{parent.qualname}.{node.name}" if parent else node.name,
            is_class,
            (first, last),
            header,
            (begin, last),
            inline,
            parent,
            is_async=isinstance(node, ast.AsyncFunctionDef),
            is_generator=not is_class and within(self.yields, first, last) and _yields(node),
            decorators=tuple([dotted(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]),
            bare=not node.decorator_list,
        )
        self.entries.append(entry)
        # The statements of a function's body matter for the definitions among them only.
        items = self.items(node.body if is_class or within(self.definitions, begin, last) else node.body[:1], entry)
        if is_class:
            entry.items = tuple(items)
        return entry


def within(lines: list[int], first: int, last: int) -> bool:
    """Whether one of the ascending `lines` is from `first` to `last`."""
    position = bisect_left(lines, first)
    return position < len(lines) and lines[position] <= last


def dotted(node: ast.expr) -> str:
    """`a.b.c` as text, with "()" and "[]" for calls and subscripts in between; "" for anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.append("." + node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            parts.append(node.id)
            return "".join(reversed(parts))
        elif isinstance(node, ast.Call):
            parts.append("()")
            node = node.func
        elif isinstance(node, ast.Subscript):
            parts.append("[]")
            node = node.value
        else:
            return ""


def _targets(nodes: Iterable[ast.expr]) -> Iterator[str]:
    """Names that these targets bind; attributes and items bind none."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Tuple, ast.List)):
            yield from _targets(node.elts)
        elif isinstance(node, ast.Starred):
            yield from _targets([node.value])


def _yields(function: _Def) -> bool:
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*_DEFS, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(node))
    return False


def _exported(module: ast.Module) -> tuple[str, ...] | None:
    names: list[str] | None = None
    for node in module.body:
        value: ast.expr | None = None
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if "__all__" in _targets(targets):
                value, names = node.value, []
        elif isinstance(node, ast.AugAssign) and dotted(node.target) == "__all__":
            value = node.value
        if value is None:
            continue
        if not isinstance(value, (ast.List, ast.Tuple)) or names is None:
            return None
        for element in value.elts:
            if not (isinstance(element, ast.Constant) and isinstance(element.value, str)):
                return None
            names.append(element.value)
    return None if names is None else tuple(names)
