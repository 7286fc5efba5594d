"""One file as the interpreter sees it: definitions and bindings found by an index, code lowered when asked for."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphlint.lower import blocks, lower_class_head, lower_function_head, lower_statements, tree
from graphlint.program import callsites, index, index_tree
from graphlint.program.callsites import CallSite
from graphlint.program.index import Entry, Index, Item
from graphlint.source import Source, SourceError, Span

__all__ = ["CallSite", "Module"]


@dataclass(eq=False)
class Module:
    """A Python file. `name` is its dotted name; compared and hashed by identity.

    Raises (on construction):
        SourceError: one line, when neither this Python's `ast` nor LibCST can parse the text.
    """

    path: Path
    name: str
    source: Source
    in_project: bool
    is_package: bool = False
    errors: dict[Path, str] = field(default_factory=dict, repr=False)
    """Gets a line for this path when a single statement had to be left out."""

    def __post_init__(self) -> None:
        self._index: Index = _index(self.source)
        self._firsts = [entry.lines[0] for entry in self._index.entries]
        self._at: dict[tuple[int, int], Entry] | None = None
        self._named: dict[str, Entry] | None = None
        self._bound: dict[str, list[Item]] | None = None
        self._body: tuple[tree.Stmt, ...] | None = None
        self._calls: dict[str, tuple[CallSite, ...]] | None = None

    # ---------------------------------------------------------------------------------------- definitions

    def definitions(self) -> Iterator[tree.Function | tree.Class]:
        """Every def and class of the file, nested ones included, in source order."""
        return (self._stub(entry) for entry in self._index.entries)

    def definition(self, qualname: str) -> tree.Function | tree.Class | None:
        """`name`, `Class.method`, `outer.inner`; of several the last, property setters and deleters aside."""
        if self._named is None:
            self._named = {}
            for entry in self._index.entries:
                if not any(d.endswith((".setter", ".deleter")) for d in entry.decorators):
                    self._named[entry.qualname] = entry
        entry_ = self._named.get(qualname)
        return None if entry_ is None else self._stub(entry_)

    def in_docstring(self, line: int) -> bool:
        """True for a line of a string that stands alone."""
        return any(first <= line <= last for first, last in self._index.docs)

    def enclosing(self, line: int) -> tree.Function | tree.Class | None:
        """The innermost definition whose lines, decorators included, contain `line`."""
        entry = self._enclosing(line)
        return None if entry is None else self._stub(entry)

    def enclosing_chain(self, line: int) -> tuple[tree.Function | tree.Class, ...]:
        """All definitions around `line`, the outermost first."""
        chain: list[tree.Function | tree.Class] = []
        entry = self._enclosing(line)
        while entry is not None:
            chain.append(self._stub(entry))
            entry = entry.parent
        return tuple(reversed(chain))

    def _enclosing(self, line: int) -> Entry | None:
        position = bisect_right(self._firsts, line) - 1
        entry = self._index.entries[position] if position >= 0 else None
        while entry is not None and entry.lines[1] < line:
            entry = entry.parent
        return entry

    def _stub(self, entry: Entry) -> tree.Function | tree.Class:
        if entry.stub is not None:
            return entry.stub
        source, end = self.source, (entry.header.end_line, entry.header.end_column)
        made: tree.Function | tree.Class
        if entry.is_class:
            made = tree.Class(
                entry.header,
                entry.name,
                entry.qualname,
                entry.lines,
                _load_head=lambda: lower_class_head(source, entry.lines[0], *end),
                _load=lambda: self._class_body(entry),
                bare=entry.bare,
            )
        else:
            made = tree.Function(
                entry.header,
                entry.name,
                entry.qualname,
                entry.is_async,
                entry.is_generator,
                entry.lines,
                _load_head=lambda: lower_function_head(source, entry.lines[0], *end),
                _load=lambda: self._function_body(entry),
                bare=entry.bare,
            )
        entry.stub = made
        return made

    def _function_body(self, entry: Entry) -> tuple[tree.Stmt, ...]:
        if entry.inline:
            return self._inline_body(entry)
        return lower_statements(self.source, *entry.body, entry.qualname, self._adopt)

    def _class_body(self, entry: Entry) -> tuple[tree.Stmt, ...]:
        return self._inline_body(entry) if entry.inline else self._block(entry.items, entry.qualname)

    def _inline_body(self, entry: Entry) -> tuple[tree.Stmt, ...]:
        """A body on the header's own line cannot be cut out by lines: the whole definition is lowered."""
        prefix = entry.parent.qualname if entry.parent else ""
        for statement in _walk(lower_statements(self.source, *entry.lines, prefix)):
            if isinstance(statement, (tree.Function, tree.Class)) and statement.span.line == entry.header.line:
                return statement.body
        return ()

    def _adopt(self, made: Any) -> Any:
        """The module's own object for a definition that was lowered with the code around it."""
        if self._at is None:
            self._at = {(e.header.line, e.header.column): e for e in self._index.entries}
        entry = self._at.get((made.span.line, made.span.column))
        if entry is None:
            return made
        stub = self._stub(entry)
        if stub._head is None:
            stub._head = made._head
        if stub._body is None:
            stub._body = made._body
        return stub

    # ---------------------------------------------------------------------------------------- statements

    def body(self) -> tuple[tree.Stmt, ...]:
        """All top-level statements in order, definitions as stubs; a statement that LibCST cannot parse is a Pass."""
        if self._body is None:
            self._body = self._block(self._index.items, "")
        return self._body

    def _block(self, items: tuple[Item, ...], scope: str) -> tuple[tree.Stmt, ...]:
        """Lowers a body: definitions and imports are there already, runs of other statements are parsed together."""
        out: list[tree.Stmt] = []
        position = 0
        while position < len(items):
            run = [items[position]]
            position += 1
            while position < len(items):
                item = items[position]
                alone = item.entry is not None or item.statement is not None
                before = run[-1].entry is not None or run[-1].statement is not None
                if item.first > run[-1].last and (alone or before):
                    break
                run.append(item)
                position += 1
            if len(run) == 1 and run[0].entry is not None:
                out.append(self._stub(run[0].entry))
            elif len(run) == 1 and run[0].statement is not None:
                out.append(run[0].statement)
            else:
                out += self._run(run, scope)
        return tuple(out)

    def _run(self, run: list[Item], scope: str) -> tuple[tree.Stmt, ...]:
        """Lowers statements that follow each other; what LibCST cannot parse alone becomes a Pass, and is reported."""
        try:
            return lower_statements(self.source, run[0].first, run[-1].last, scope, self._adopt)
        except SourceError as error:
            if len(run) == 1:
                self.errors.setdefault(self.path, str(error))
                item = run[0]
                return (tree.Pass(Span(item.line, item.column, item.line, item.column)),)
        out: list[tree.Stmt] = []
        done = 0
        for item in run:
            if item.last > done:  # several statements may share a line
                out += self._run([item], scope)
                done = item.last
        return tuple(out)

    # ---------------------------------------------------------------------------------------- names

    def _bindings(self) -> dict[str, list[Item]]:
        if self._bound is None:
            self._bound = {}
            for item in index.flat(self._index.items):
                for name in item.binds:
                    self._bound.setdefault(name, []).append(item)
        return self._bound

    def names(self) -> set[str]:
        """Names bound at top level, star imports aside."""
        return set(self._bindings())

    def bindings(self, name: str) -> tuple[tree.Stmt, ...]:
        """Top-level statements, also in top-level blocks, that bind `name`, in source order: the last one wins.

        Raises:
            SourceError: LibCST cannot parse one of them.
        """
        return tuple([self._statement(item) for item in self._bindings().get(name, ())])

    def bound_at(self, line: int) -> tuple[str, ...]:
        """Names that an assignment at top level binds which takes this line."""
        flat = index.flat(self._index.items)
        return next((i.binds for i in flat if i.kind == "assign" and i.first <= line <= i.last), ())

    def naming(self, words: Collection[str]) -> tuple[tree.Stmt, ...]:
        """Top-level statements, also in top-level `if` and `try`, that name one of `words`; loops are one statement.

        Definitions and imports are left out.
        """
        named = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in words)})\b")
        found: list[tree.Stmt] = []
        waiting = list(reversed(self._index.items))
        while waiting:
            item = waiting.pop()
            if item.kind not in ("assign", "other", "compound"):
                continue
            if not any(map(named.search, self.source.lines[item.first - 1 : item.last])):
                continue
            if item.children and not item.binds:
                waiting += reversed(item.children)
                continue
            try:
                found.append(self._statement(item))
            except SourceError as error:
                self.errors.setdefault(self.path, str(error))
        return tuple(found)

    def origins(self, name: str) -> tuple[tree.Stmt | None, ...]:
        """What binds `name` at top level, the likeliest first: the import statement, or None for code of this file.

        Later comes before earlier, and what stands in an `except` handler or an `else` part comes last.
        """
        items = sorted(reversed(self._bindings().get(name, ())), key=lambda item: item.fallback)
        return tuple([item.statement if item.kind == "import" else None for item in items])

    def star_imports(self) -> tuple[tree.ImportFrom, ...]:
        """`from x import *` at top level, also in top-level blocks."""
        found = [item.statement for item in index.flat(self._index.items) if item.kind == "star"]
        return tuple([statement for statement in found if isinstance(statement, tree.ImportFrom)])

    def dunder_all(self) -> tuple[str, ...] | None:
        """`__all__`, if it is a literal."""
        return self._index.exported

    def _statement(self, item: Item) -> tree.Stmt:
        if item.entry is not None:
            return self._stub(item.entry)
        if item.statement is None:
            lowered = lower_statements(self.source, item.first, item.last, "", self._adopt)
            for statement in _walk(lowered):
                if (statement.span.line, statement.span.column) == (item.line, item.column):
                    item.statement = statement
                    break
            else:
                raise SourceError(f"no statement found at line {item.line}")
        return item.statement

    # ---------------------------------------------------------------------------------------- calls

    def calls(self, name: str) -> tuple[CallSite, ...]:
        """Calls and decorators whose callee's last part is `name`, in source order."""
        if self._calls is None:
            if name not in self.source.text:
                return ()
            try:
                module = index.parse(self.source)
            except SyntaxError:
                self._calls = callsites.from_tree(self.body())
            else:
                self._calls = callsites.from_ast(self.source, module)
        return self._calls.get(name, ())


def _walk(statements: tuple[tree.Stmt, ...]) -> Iterator[tree.Stmt]:
    """Statements and those in their blocks, bodies of functions and classes only where they are lowered already."""
    stack = list(reversed(statements))
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, (tree.Function, tree.Class)) and statement._body is None:
            continue
        for block in reversed(blocks(statement)):
            stack.extend(reversed(block))


def _index(source: Source) -> Index:
    try:
        module = index.parse(source)
    except SyntaxError as error:
        try:
            return index_tree.build(source)  # newer syntax than the running Python's
        except SourceError as other:
            if str(other).startswith("nested"):
                raise
            message = (error.msg or "invalid syntax").splitlines()[0]
            raise SourceError(f"syntax error: {message} (line {error.lineno or 1})") from None
    try:
        return index.build(source, module)
    except RecursionError:
        raise SourceError("nested too deeply") from None
