"""Source text as graphlint sees it: decoded once, lines as Python splits them, columns in code points.

Glossary:
    span      a half-open stretch of text: (line, column) to (end_line, end_column), all from 1, columns in code points.
    location  a span in a file.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path

_LINE_ENDS = re.compile(r"\r\n|\r|\n")
#: Larger files are generated tables, not code that captures graphs; they are named and left out.
MAX_BYTES = 5_000_000


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Where something stands: lines and columns from 1, columns in code points, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A span in a file. `path` is the absolute path as text; reports make it relative."""

    path: str
    span: Span

    @property
    def line(self) -> int:
        return self.span.line


class SourceError(Exception):
    """A file that cannot be read or parsed; the text is one line for the user."""


@dataclass(slots=True)
class Source:
    """One file's text. `lines` are split only at CRLF, CR and LF, as Python does; form feeds stay inside a line."""

    path: Path
    text: str
    encoding: str = "utf-8"
    bom: bool = False
    _lines: list[str] | None = field(default=None, repr=False)
    _starts: list[int] | None = field(default=None, repr=False)

    @property
    def line_starts(self) -> list[int]:
        """Offset in `text` of each line's first character."""
        if self._starts is None:
            self._starts = [0, *(m.end() for m in _LINE_ENDS.finditer(self.text))]
        return self._starts

    @property
    def lines(self) -> list[str]:
        if self._lines is None:
            self._lines = _LINE_ENDS.split(self.text)
        return self._lines

    def offsets(self, first: int, last: int) -> tuple[int, int]:
        """Where the lines `first` to `last` (from 1, both included) begin and end in `text`."""
        starts = self.line_starts
        return starts[first - 1], starts[last] if last < len(starts) else len(self.text)

    @classmethod
    def from_bytes(cls, path: Path, data: bytes) -> Source:
        """Decodes by BOM or coding cookie, as Python does.

        Raises:
            SourceError: unknown encoding, undecodable bytes, NUL bytes, or more than MAX_BYTES.
        """
        if len(data) > MAX_BYTES:
            raise SourceError(f"larger than {MAX_BYTES // 1_000_000} MB, not checked")
        if b"\0" in data:
            raise SourceError("contains NUL bytes")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        except (SyntaxError, UnicodeDecodeError) as error:
            raise SourceError(f"unknown or wrong encoding: {str(error).splitlines()[0]}") from None
        bom = encoding == "utf-8-sig"
        try:
            text = data.decode(encoding)
        except (UnicodeDecodeError, LookupError) as error:
            raise SourceError(f"cannot be decoded: {error}") from None
        return cls(path, text, "utf-8" if bom else encoding, bom)

    @classmethod
    def read(cls, path: Path) -> Source:
        """Reads and decodes `path`.

        Raises:
            SourceError: also when the file cannot be opened.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror or error}") from None
        return cls.from_bytes(path, data)
