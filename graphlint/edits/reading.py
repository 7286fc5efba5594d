"""Texts as the analysis reads them, cut into logical lines."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from graphlint.source import Location, Source, SourceError, Span

Reader = Callable[[Path], Source]


_reader: ContextVar[Reader | None] = ContextVar("graphlint_reader", default=None)


#: The last files that were asked for, with their statements: fixes of one file come together.
_KEEP = 8


_texts: ContextVar[dict[str, Text] | None] = ContextVar("graphlint_texts", default=None)


@dataclass(frozen=True, slots=True)
class Statement:
    """A logical line: from its first token to its last; `indent` is the white space before it."""

    span: Span
    indent: str
    compound: bool
    """True if it ends in a colon: what follows is its body."""


@dataclass(slots=True)
class Text:
    """A file's text and its statements, in order."""

    source: Source
    statements: list[Statement]


@contextmanager
def reading(reader: Reader) -> Iterator[None]:
    """Within, texts come from `reader` and each file is read once."""
    first, second = _reader.set(reader), _texts.set({})
    try:
        yield
    finally:
        _reader.reset(first)
        _texts.reset(second)


def _text(path: str) -> Text | None:
    kept = _texts.get()
    if kept is not None and path in kept:
        return kept[path]
    try:
        source = (_reader.get() or Source.read)(Path(path))
    except SourceError:
        return None
    text = Text(source, _statements(source))
    if kept is not None:
        while len(kept) >= _KEEP:
            kept.pop(next(iter(kept)))
        kept[path] = text
    return text


def _statements(source: Source) -> list[Statement]:
    """The logical lines of a file, as far as it can be tokenized."""
    found: list[Statement] = []
    lines = source.lines
    reader = io.StringIO("\n".join(lines) + "\n")
    first: tuple[int, int] | None = None
    last: tokenize.TokenInfo | None = None
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        for token in tokenize.generate_tokens(reader.readline):
            if token.type == tokenize.NEWLINE:
                if first is not None and last is not None:
                    span = Span(first[0], first[1] + 1, last.end[0], last.end[1] + 1)
                    found.append(Statement(span, lines[first[0] - 1][: first[1]], last.string == ":"))
                first = None
            elif token.type not in skip:
                first = first or token.start
                last = token
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


def text(at: Location) -> str:
    """The source text of a location, "" if it cannot be read."""
    found = _text(at.path)
    return _slice(found.source, at.span) if found is not None else ""


def assigned(path: str, name: str) -> list[str]:
    """What a file assigns to a dotted name anywhere, as text."""
    found = _text(path)
    if found is None:
        return []
    codes = (_slice(found.source, s.span) for s in found.statements)
    return [code.partition("=")[2].strip() for code in codes if code.partition("=")[0].strip() == name]


def mentions(path: str, pattern: str) -> list[Location]:
    """The statements of a file in which a regular expression is found, in order."""

    found = _text(path)
    if found is None:
        return []
    matches = (s.span for s in found.statements if re.search(pattern, _slice(found.source, s.span)))
    return [Location(path, span) for span in matches]


def torch_name(path: str) -> str | None:
    """What a file calls `torch`, None if it does not import it."""
    found = _text(path)
    for each in found.statements if found is not None else ():
        code = _slice(found.source, each.span) if found is not None else ""
        for part in code.removeprefix("import ").split(",") if code.startswith("import ") else ():
            package, _, alias = (word.strip() for word in part.partition(" as "))
            if package == "torch" or (package.startswith("torch.") and not alias):
                return alias or "torch"
    return None


def _slice(source: Source, span: Span) -> str:
    lines = source.lines[span.line - 1 : span.end_line]
    if len(lines) != span.end_line - span.line + 1:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def statement(at: Location) -> Statement | None:
    """The statement that a location stands in."""
    found = _text(at.path)
    if found is None:
        return None
    place = (at.span.line, at.span.column)
    for candidate in found.statements:
        span = candidate.span
        if (span.line, span.column) <= place < (span.end_line, span.end_column):
            return candidate
    return None


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    """The tokens of some lines, as far as they can be told."""
    import textwrap

    found: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, SyntaxError):
        found += tokenize.generate_tokens(io.StringIO(textwrap.dedent(code) + "\n").readline)
    return found


def _has_long_text(code: str) -> bool:
    """Whether a string goes on over a line end."""
    return any(t.start[0] != t.end[0] for t in _tokens(code) if t.type not in (tokenize.NEWLINE, tokenize.NL))


def comments(source: Source, span: Span) -> list[str]:
    """The comments in these lines, in order."""
    code = "\n".join(source.lines[span.line - 1 : span.end_line])
    return [token.string for token in _tokens(code) if token.type == tokenize.COMMENT]
