"""Headers, bodies and neighbours of a statement."""

from __future__ import annotations

import re
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphlint.edits.reading import Statement, _has_long_text, _slice, _text, _tokens, statement, text
from graphlint.edits.syntax import _within, inner
from graphlint.source import Location, Span

if TYPE_CHECKING:
    pass


def body(at: Location) -> tuple[Span, list[str]] | None:
    """The lines below the header around `at`: their span, and their text without the common indentation."""
    import textwrap

    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or not found.compound:
        return None
    inside: list[Statement] = []
    for candidate in source.statements[source.statements.index(found) + 1 :]:
        if len(candidate.indent.expandtabs()) <= len(found.indent.expandtabs()):
            break
        inside.append(candidate)
    if not inside or inside[0].span.line == found.span.line:
        return None
    span = Span(
        inside[0].span.line, 1, inside[-1].span.end_line, len(source.source.lines[inside[-1].span.end_line - 1]) + 1
    )
    return span, textwrap.dedent("\n".join(source.source.lines[span.line - 1 : span.end_line])).split("\n")


def headers(at: Location) -> list[Location]:
    """The headers of the blocks around the statement at `at` in its function, innermost first."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    around: list[Location] = []
    width = len(found.indent.expandtabs())
    for candidate in reversed(source.statements[: source.statements.index(found)]):
        if candidate.compound and len(candidate.indent.expandtabs()) < width:
            if _slice(source.source, candidate.span).startswith(("def ", "async def ", "class ")):
                break
            width = len(candidate.indent.expandtabs())
            around.append(Location(at.path, candidate.span))
    return around


def function_lines(at: Location) -> list[Location]:
    """Every statement of the function around `at`, headers of blocks included, in order; of the file outside one."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    number = source.statements.index(found)
    width = len(found.indent.expandtabs())
    first = 0
    for before_ in range(number - 1, -1, -1):
        candidate = source.statements[before_]
        if candidate.compound and len(candidate.indent.expandtabs()) < width:
            width = len(candidate.indent.expandtabs())
            if _slice(source.source, candidate.span).startswith(("def ", "async def ", "class ")):
                first = before_ + 1
                break
    else:
        width = -1
    lines_: list[Location] = []
    for candidate in source.statements[first:]:
        if len(candidate.indent.expandtabs()) <= width:
            break
        lines_.append(Location(at.path, candidate.span))
    return lines_


def previous(at: Location) -> Location | None:
    """The statement in front of the one around `at`, None if that is the first of the file."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return None
    number = source.statements.index(found)
    return Location(at.path, source.statements[number - 1].span) if number > 0 else None


def behind_block(at: Location) -> Location | None:
    """The statement behind the body below the header around `at`."""
    block, source = body(at), _text(at.path)
    if block is None or source is None:
        return None
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    return Location(at.path, following.span) if following is not None else None


def first_inside(at: Location) -> Location | None:
    """The first statement of the body below the header around `at`."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None:
        return None
    return Location(at.path, source.statements[source.statements.index(found) + 1].span)


def rest_of_body(at: Location) -> list[Location]:
    """The statements behind the one around `at`, with its body, up to the end of the body that it stands in.

    Empty if one of them has a body of its own.
    """
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    block = body(at) if found.compound else None
    last = block[0].end_line if block is not None else found.span.end_line
    following: list[Location] = []
    for candidate in source.statements:
        if candidate.span.line <= last:
            continue
        if len(candidate.indent.expandtabs()) < len(found.indent.expandtabs()):
            break
        if candidate.compound or candidate.indent != found.indent:
            return []
        following.append(Location(at.path, candidate.span))
    return following


def has_else(at: Location) -> bool:
    """Whether the block whose header is around `at` is followed by `else`, `elif`, `except` or `finally`."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None:
        return False
    following = [s for s in source.statements if s.span.line > block[0].end_line]
    if not following or following[0].indent != found.indent:
        return False
    return _slice(source.source, following[0].span).startswith(("else", "elif", "except", "finally"))


def stands_before(at: Location, line: str) -> bool:
    """Whether the statement in front of the one around `at` is `line`."""
    found = previous(at)
    return found is not None and text(found) == line


def stands_after_block(at: Location, line: str) -> bool:
    """Whether the statement behind the block whose header is around `at` is `line`."""
    block, source = body(at), _text(at.path)
    if block is None or source is None:
        return False
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    return following is not None and _slice(source.source, following.span) == line


def _only_one(found: Statement, statements: list[Statement]) -> bool:
    """Whether a body would be empty without this statement."""
    at = statements.index(found)
    previous = statements[at - 1] if at > 0 else None
    following = statements[at + 1] if at + 1 < len(statements) else None
    opens = previous is not None and previous.compound and len(previous.indent) < len(found.indent)
    return opens and (following is None or len(following.indent) < len(found.indent))


@dataclass(frozen=True, slots=True)
class Shared:
    """A simple statement that shares its line with others, or with the header that it belongs to.

    `at` is the statement, None for the header of `if c: a`; `first` and `last` say whether it begins or ends the line.
    """

    at: Location | None
    first: bool
    last: bool


_HEADERS = ("if", "for", "while", "with", "try", "elif", "else", "except", "finally", "def", "class", "async", "match")


def _shared(at: Location) -> Shared | None:
    """How the simple statement around `at` shares its line; None if it has the line for itself."""
    import libcst

    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.compound:
        return None
    code = _slice(source.source, found.span)
    word = re.match(r"\w*", code)
    header = word is not None and word[0] in _HEADERS
    if not header and not any(t.type == tokenize.OP and t.string == ";" for t in _tokens(code)):
        return None
    parts = [p for p, n in inner(Location(at.path, found.span)) if isinstance(n, libcst.BaseSmallStatement)]
    mine = next((p for p in parts if _within(at.span, p.span)), None)
    if mine is None:
        ahead = not parts or (at.span.line, at.span.column) < (parts[0].span.line, parts[0].span.column)
        return Shared(None, first=ahead, last=False)
    return Shared(mine, first=mine == parts[0] and not header, last=mine == parts[-1] and not header)


def lines(at: Location) -> list[str]:
    """The simple statement around `at` without its indentation, with the comment behind it; empty if it has none."""
    import textwrap

    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.compound:
        return []
    if (shared := _shared(at)) is not None:
        return [text(shared.at)] if shared.at is not None and shared.at.span.line == shared.at.span.end_line else []
    whole = source.source.lines[found.span.line - 1 : found.span.end_line]
    if len(whole) > 1 and _has_long_text("\n".join(whole)):
        return []
    return textwrap.dedent("\n".join(whole)).rstrip().split("\n")
