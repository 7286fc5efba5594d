"""A cursor that runs over the source text while LibCST's tree is walked in source order.

LibCST keeps every character but no positions, and its position provider costs twice the parse. The walk knows which
token comes next, so it is enough to skip whitespace and comments, check the token, and go on: positions come out in
the original file, whatever slice of it was parsed.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from graphlint.source import Source, Span

_TRIVIA = re.compile(r"(?:[ \t\f\r\n]+|\\\r?\n|\\\r|#[^\r\n]*)*")

#: How far ahead a token is looked for that did not come next.
_RESYNC = 80


class Cursor:
    """`pos` is an offset in the source's text, behind the token taken last."""

    __slots__ = ("_skip", "_starts", "drifts", "pos", "text")

    def __init__(self, source: Source, line: int) -> None:
        self.text = source.text
        self._starts = source.line_starts
        self._skip = _TRIVIA.match
        self.pos = self._starts[line - 1]
        #: how often an expected token was not there (a construct that the walk does not know); tests keep it at 0.
        self.drifts = 0

    def here(self) -> int:
        """Moves to the next token and gives its offset."""
        pos = self.pos = self._skip(self.text, self.pos).end()  # type: ignore[union-attr]
        return pos

    def take(self, token: str) -> int:
        """Moves behind `token`, which must come next, and gives the offset of its first character."""
        pos = self._skip(self.text, self.pos).end()  # type: ignore[union-attr]
        if not self.text.startswith(token, pos):
            self.drifts += 1
            found = self.text.find(token, pos, pos + _RESYNC)
            if found < 0:
                return pos
            pos = found
        self.pos = pos + len(token)
        return pos

    def comes(self, token: str) -> bool:
        return self.text.startswith(token, self.here())

    def span(self, start: int, end: int) -> Span:
        """The span of text[start:end]."""
        starts = self._starts
        line = bisect_right(starts, start)
        base = starts[line - 1]
        if line >= len(starts) or end <= starts[line]:
            return Span(line, start - base + 1, line, end - base + 1)
        last = bisect_right(starts, end)
        return Span(line, start - base + 1, last, end - starts[last - 1] + 1)
