"""Names, numbers and strings: the expressions that hold no operator. Also what all parts of the walk share."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import libcst as cst

from graphlint.lower import literals, tree
from graphlint.lower.cursor import Cursor

_NAMED = {"None": None, "True": True, "False": False}


def identifier(name: str) -> str:
    """A name as Python compares it."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


class LeafLowerer:
    """Lowers leaves at a cursor. `yields` tells whether a `yield` of the current function was met."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.yields = False
        self._table: dict[type, Callable[[Any, int], tree.Expr]] = {}

    def expr(self, node: Any) -> tree.Expr:
        raise NotImplementedError

    def _Name(self, node: cst.Name, start: int) -> tree.Expr:
        cursor, name = self.cursor, node.value
        end = cursor.pos = start + len(name)
        if not cursor.text.startswith(name, start):
            cursor.pos = start
            start = cursor.take(name)
            end = cursor.pos
        span = cursor.span(start, end)
        return tree.Constant(span, _NAMED[name]) if name in _NAMED else tree.Name(span, identifier(name))

    def _number(self, node: Any, start: int) -> tree.Expr:
        self.cursor.take(node.value)
        return tree.Constant(self.cursor.span(start, self.cursor.pos), literals.number(node.value))

    _Integer = _Float = _Imaginary = _number

    def _Ellipsis(self, node: cst.Ellipsis, start: int) -> tree.Expr:
        self.cursor.take("...")
        return tree.Constant(self.cursor.span(start, self.cursor.pos), ...)

    def _SimpleString(self, node: cst.SimpleString, start: int) -> tree.Expr:
        self.cursor.take(node.value)
        return tree.Constant(self.cursor.span(start, self.cursor.pos), literals.string(node.value))

    def _FormattedString(self, node: Any, start: int) -> tree.Expr:
        values: list[tree.Expr] = []
        text = self._format(node, values)
        return tree.FString(self.cursor.span(start, self.cursor.pos), tuple(values), text)

    _TemplatedString = _FormattedString

    def _format(self, node: Any, values: list[tree.Expr]) -> str:
        self.cursor.take(node.start)
        text = self._parts(node.parts, values)
        self.cursor.pos += len(node.end)
        return text

    def _parts(self, parts: Iterable[Any], values: list[tree.Expr]) -> str:
        cursor = self.cursor
        texts: list[str] = []
        for part in parts:
            if not hasattr(part, "expression"):
                texts.append(literals.template_text(part.value))
                cursor.pos += len(part.value)
                continue
            texts.append("{}")
            cursor.take("{")
            values.append(self.expr(part.expression))
            if part.equal is not None:
                cursor.take("=")
            if part.conversion is not None:
                cursor.take("!")
                cursor.take(part.conversion)
            if part.format_spec is not None:
                cursor.take(":")
                self._parts(part.format_spec, values)
            cursor.take("}")
        return "".join(texts)

    def _ConcatenatedString(self, node: Any, start: int) -> tree.Expr:
        pieces: list[Any] = []
        rest = [node]
        while rest:
            piece = rest.pop()
            if type(piece) is cst.ConcatenatedString:
                rest += (piece.right, piece.left)
            else:
                pieces.append(piece)
        values: list[tree.Expr] = []
        texts: list[str | bytes] = []
        formatted = False
        for piece in pieces:
            if type(piece) is cst.SimpleString:
                self.cursor.take(piece.value)
                texts.append(literals.string(piece.value) or "")
            else:
                formatted = True
                texts.append(self._format(piece, values))
        span = self.cursor.span(start, self.cursor.pos)
        if formatted:
            return tree.FString(span, tuple(values), "".join([t for t in texts if isinstance(t, str)]))
        if any(isinstance(t, bytes) for t in texts):
            return tree.Constant(span, b"".join([t for t in texts if isinstance(t, bytes)]))
        return tree.Constant(span, "".join([t for t in texts if isinstance(t, str)]))
