"""LibCST to the small tree, slice by slice: only the lines that somebody asks for are parsed."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any

import libcst as cst

from graphlint.lower import tree
from graphlint.lower.convert import Adopt, StatementLowerer
from graphlint.lower.cursor import Cursor
from graphlint.lower.depth import too_deep
from graphlint.source import Source, SourceError

__all__ = ["blocks", "lower_class_head", "lower_function_head", "lower_statements", "lower_whole"]

_INDENT = re.compile(r"[ \t\f]*")
#: Whole files lowered because a slice of them does not parse alone, newest last.
_WHOLE: OrderedDict[int, tuple[Source, tuple[tree.Stmt, ...] | SourceError]] = OrderedDict()
_WHOLE_KEPT = 4


def lower_statements(
    source: Source, first_line: int, last_line: int, qualname_prefix: str = "", adopt: Adopt | None = None
) -> tuple[tree.Stmt, ...]:
    """The complete statements that stand on lines `first_line` to `last_line` (from 1, both included).

    `qualname_prefix` is the qualified name of the definition around them; `adopt` may put another object in the place
    of each Function and Class made.

    Raises:
        SourceError: LibCST cannot parse them, or they nest too deeply.
    """
    try:
        parsed, indented = _parse(source, first_line, _text(source, first_line, last_line))
    except SourceError as error:
        if str(error).startswith("nested") or (first_line <= 1 and last_line >= len(source.lines)):
            raise
        try:
            return _from_whole(source, first_line, last_line, adopt)
        except SourceError:
            raise error from None
    lowerer = StatementLowerer(Cursor(source, first_line), qualname_prefix.rstrip("."), adopt)
    body: Any = parsed.body
    if indented:
        body = body[0].body.body if body else ()
    try:
        return lowerer.block(body)
    except RecursionError:
        raise SourceError(f"nested too deeply (line {first_line})") from None


def lower_function_head(source: Source, first_line: int, end_line: int, end_column: int) -> tree.FunctionHead:
    """Decorators, parameters and return annotation of a `def`; its header ends, colon included, at the place given.

    Raises:
        SourceError: as lower_statements.
    """
    lowerer, node = _head(source, first_line, end_line, end_column)
    if not isinstance(node, cst.FunctionDef):
        raise SourceError(f"no function at line {first_line}")
    return lowerer.function_head(node)[1]


def lower_class_head(source: Source, first_line: int, end_line: int, end_column: int) -> tree.ClassHead:
    """Decorators, bases and keywords of a `class`; its header ends, colon included, at the place given.

    Raises:
        SourceError: as lower_statements.
    """
    lowerer, node = _head(source, first_line, end_line, end_column)
    if not isinstance(node, cst.ClassDef):
        raise SourceError(f"no class at line {first_line}")
    return lowerer.class_head(node)[1]


def _head(source: Source, first_line: int, end_line: int, end_column: int) -> tuple[StatementLowerer, Any]:
    starts = source.line_starts
    text = source.text[starts[first_line - 1] : starts[end_line - 1] + end_column - 1] + " pass\n"
    parsed, indented = _parse(source, first_line, text)
    body: Any = parsed.body[0].body.body if indented and parsed.body else parsed.body  # type: ignore[union-attr]
    return StatementLowerer(Cursor(source, first_line)), body[0] if body else None


def _text(source: Source, first_line: int, last_line: int) -> str:
    start, end = source.offsets(first_line, last_line)
    return source.text[start:end]


def _parse(source: Source, first_line: int, text: str, whole: bool = False) -> tuple[cst.Module, bool]:
    """Parses a slice; indented ones under an `if 1:`, so that strings over several lines keep their text."""
    if too_deep(text):
        raise SourceError(f"nested too deeply (line {first_line})")
    indent = _INDENT.match(text)
    indented = not whole and indent is not None and indent.group().rpartition("\f")[2] != ""
    try:
        return cst.parse_module("if 1:\n" + text if indented else text), indented
    except cst.ParserSyntaxError as error:
        line = min(first_line + error.raw_line - 1 - indented, len(source.lines))
        raise SourceError(f"syntax error (line {line})") from None
    except RecursionError:
        raise SourceError(f"nested too deeply (line {first_line})") from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        # What its parser lets through, its nodes may refuse, and a panic in its native half is no Exception.
        raise SourceError(f"syntax error (line {first_line})") from None


def lower_whole(source: Source) -> tuple[tree.Stmt, ...]:
    """All statements of the file; the last few files are kept.

    Raises:
        SourceError: as lower_statements.
    """
    kept = _WHOLE.get(id(source))
    if kept is None or kept[0] is not source:
        kept = _WHOLE[id(source)] = (source, _whole(source))
        while len(_WHOLE) > _WHOLE_KEPT:
            _WHOLE.popitem(last=False)
    if isinstance(kept[1], SourceError):
        raise SourceError(str(kept[1]))
    return kept[1]


def _whole(source: Source) -> tuple[tree.Stmt, ...] | SourceError:
    try:
        parsed, _ = _parse(source, 1, source.text, whole=True)
        return StatementLowerer(Cursor(source, 1)).block(parsed.body)
    except SourceError as error:
        return error
    except RecursionError:
        return SourceError("nested too deeply (line 1)")


def _from_whole(source: Source, first_line: int, last_line: int, adopt: Adopt | None) -> tuple[tree.Stmt, ...]:
    """The outermost statements of the whole file that lie inside these lines."""
    found: list[tree.Stmt] = []

    def search(block: tuple[tree.Stmt, ...]) -> None:
        for statement in block:
            start = statement.lines[0] if isinstance(statement, (tree.Function, tree.Class)) else statement.span.line
            if start > last_line:
                return
            if start >= first_line:
                found.append(statement)
            else:
                for inner in blocks(statement):
                    search(inner)

    search(lower_whole(source))
    if adopt is not None:
        return tuple([adopt(s) if isinstance(s, (tree.Function, tree.Class)) else s for s in found])
    return tuple(found)


def blocks(statement: tree.Stmt) -> tuple[tuple[tree.Stmt, ...], ...]:
    """The blocks of statements directly inside a compound statement or definition, in source order."""
    if isinstance(statement, (tree.Function, tree.Class, tree.With)):
        return (statement.body,)
    if isinstance(statement, (tree.If, tree.While, tree.For)):
        return (statement.body, statement.orelse)
    if isinstance(statement, tree.Try):
        return (statement.body, *[h.body for h in statement.handlers], statement.orelse, statement.final)
    if isinstance(statement, tree.Match):
        return tuple([case.body for case in statement.cases])
    return ()
