"""Places in a file as editors count them.

graphlint counts lines and code points from 1; an editor counts from 0, and columns in UTF-8 bytes, UTF-16 units or code
points, whichever was agreed. Lines end at CRLF, CR and LF only: form feeds and Unicode separators are part of a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from lsprotocol import types as lsp

from graphlint.source import Source, Span

Encoding = lsp.PositionEncodingKind
_BOM = "\ufeff"


def units(text: str, encoding: Encoding | str) -> int:
    """How long `text` is in the units of an encoding."""
    if encoding == Encoding.Utf8:
        return len(text.encode("utf-8", "surrogatepass"))
    if encoding == Encoding.Utf32:
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def points(text: str, count: int, encoding: Encoding | str) -> int:
    """How many code points the first `count` units of `text` hold; a half one counts as begun."""
    done = 0
    for index, character in enumerate(text):
        if done >= count:
            return index
        done += units(character, encoding)
    return len(text)


@dataclass(slots=True)
class Table:
    """The lines of a text, which may begin with a byte order mark that graphlint does not count."""

    lines: list[str]
    encoding: Encoding | str
    bom: bool = False

    @classmethod
    def of(cls, text: str, encoding: Encoding | str) -> Table:
        return cls(Source(Path("."), text).lines, encoding, text.startswith(_BOM))

    def position(self, line: int, column: int) -> lsp.Position:
        """Of a line and column from 1; what lies outside the text is drawn into it."""
        if line > len(self.lines):
            return lsp.Position(len(self.lines) - 1, units(self.lines[-1], self.encoding))
        text = self.lines[line - 1]
        column += self.bom and line == 1
        return lsp.Position(line - 1, units(text[: max(0, column - 1)], self.encoding))

    def range(self, span: Span) -> lsp.Range:
        return lsp.Range(self.position(span.line, span.column), self.position(span.end_line, span.end_column))

    def place(self, position: lsp.Position) -> tuple[int, int]:
        """Line and column from 1."""
        line = min(position.line, len(self.lines) - 1)
        column = points(self.lines[line], position.character, self.encoding) + 1
        return line + 1, column - (self.bom and line == 0)


#: Above this many pairs of lines a comparison would keep the editor waiting.
_MAX_PAIRS = 1_000_000


class Shift:
    """From the lines of a text to those of a later one: a line that was not edited keeps its place among the others."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        head = 0
        while head < min(len(old), len(new)) and old[head] == new[head]:
            head += 1
        tail = 0
        while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        self.blocks = [(0, 0, head)]
        middle, other = old[head : len(old) - tail], new[head : len(new) - tail]
        if len(middle) * len(other) <= _MAX_PAIRS:
            matcher = SequenceMatcher(None, middle, other, autojunk=False)
            self.blocks += [(head + m.a, head + m.b, m.size) for m in matcher.get_matching_blocks()]
        self.blocks.append((len(old) - tail, len(new) - tail, tail))

    def span(self, span: Span) -> Span | None:
        """Where `span` stands now, None if one of its lines was edited."""
        for old, new, size in self.blocks:
            if old < span.line and span.end_line <= old + size:
                return Span(span.line + new - old, span.column, span.end_line + new - old, span.end_column)
        return None
