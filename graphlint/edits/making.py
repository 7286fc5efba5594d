"""Edits of statements and blocks, None where one cannot be made."""

from __future__ import annotations

from collections.abc import Sequence

from graphlint.edits.blocks import _only_one, _shared, body, first_inside, has_else, lines
from graphlint.edits.reading import _has_long_text, _text, comments, statement, text
from graphlint.edits.syntax import is_primary, parsed
from graphlint.finding import Edit, Fix
from graphlint.source import Location, Span


def fix(title: str, *edits: Edit | None, safe: bool) -> Fix | None:
    """A Fix of these edits, None if one of them could not be made."""
    made = [edit for edit in edits if edit is not None]
    return Fix(title, tuple(made), safe) if made and len(made) == len(edits) else None


def replace(at: Location, new: str) -> Edit | None:
    """The expression at `at` becomes `new`."""
    return Edit(at.path, at.span, new) if text(at) and parsed(new) is not None else None


def spelled(at: Location, new: str) -> Edit | None:
    """The text at `at`, which need not be an expression, becomes `new`: a header of a block, a statement."""
    return Edit(at.path, at.span, new) if text(at) else None


def insert(at: Location, new: str, *, end: bool = False) -> Edit | None:
    """`new` is put before the location, or behind it."""
    if not text(at):
        return None
    span = at.span
    line, column = (span.end_line, span.end_column) if end else (span.line, span.column)
    return Edit(at.path, Span(line, column, line, column), new)


def method(at: Location, call: str) -> Edit | None:
    """`x` becomes `x.call`, in brackets where that is needed: `method(at, "clone()")`."""
    old = text(at)
    if not old or parsed(f"({old}\n).{call}") is None:
        return None
    if is_primary(old):
        return insert(at, f".{call}", end=True)
    return Edit(at.path, at.span, f"({old}).{call}")


def before(at: Location, *lines: str) -> Edit | None:
    """Statements in front of the one at `at`, with its indentation; further indentation is relative to it."""
    found = statement(at)
    if found is None or found.indent.strip() or _has_long_text("\n".join(lines)):
        return None
    if (shared := _shared(at)) is not None and not shared.first:
        return None
    new = "".join(f"{found.indent}{line}\n" if line else "\n" for line in lines)
    line = found.span.line
    return Edit(at.path, Span(line, 1, line, 1), new)


def after(at: Location, *lines: str) -> Edit | None:
    """Statements behind the simple one at `at`, with its indentation; None if others follow on its line."""
    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or found.compound or found.indent.strip():
        return None
    if (shared := _shared(at)) is not None and not shared.last:
        return None
    end = found.span.end_line
    text_end = len(source.source.lines[end - 1]) + 1
    new = "".join(f"\n{found.indent}{line}" if line else "\n" for line in lines)
    return Edit(at.path, Span(end, text_end, end, text_end), new)


def rewrite(at: Location, *lines: str) -> Edit | None:
    """The simple statement at `at` becomes these, with its indentation; a comment behind it stays behind the last.

    Where it shares its line with others (`a; b`, `if c: a`), one line may take its place.
    """
    found = statement(at)
    if found is None or found.compound:
        return None
    if (shared := _shared(at)) is not None:
        alone = len(lines) == 1 and shared.at is not None
        return Edit(at.path, shared.at.span, lines[0]) if alone and shared.at is not None else None
    return Edit(at.path, found.span, f"\n{found.indent}".join(lines))


def delete(at: Location) -> Edit | None:
    """The simple statement at `at` goes, with its line and the comment behind it.

    It becomes `pass` where a body would be empty without it, or where others stand on its line.
    """
    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or found.compound:
        return None
    if (shared := _shared(at)) is not None:
        return Edit(at.path, shared.at.span, "pass") if shared.at is not None else None
    lines = source.source.lines
    if _only_one(found, source.statements) or found.span.end_line >= len(lines):
        return Edit(at.path, found.span, "pass")
    return Edit(at.path, Span(found.span.line, 1, found.span.end_line + 1, 1), "")


def move(at: Location, to: Location) -> tuple[Edit | None, Edit | None]:
    """The simple statement around `at` goes in front of the one at `to`, with the comment behind it."""
    moved = lines(at)
    return delete(at), before(to, *moved) if moved else None


def move_behind(at: Location, header: Location) -> list[Edit | None]:
    """The simple statement around `at` goes behind the block of `header` that it stands in."""
    found, block, outer, moved = statement(at), body(header), statement(header), lines(at)
    if found is None or block is None or outer is None or not moved or _shared(at) is not None:
        return [None]
    if found.span.end_line < block[0].end_line:
        return [delete(at), after_block(header, *moved)]
    left = [f"{found.indent}pass"] if found.span.line == block[0].line else []
    new = [*left, *(outer.indent + line for line in moved)]
    return [Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), "\n".join(new))]


def after_block(at: Location, *lines: str) -> Edit | None:
    """Statements behind the whole block whose header is around `at`, in line with the header."""
    found, block = statement(at), body(at)
    if found is None or block is None:
        return None
    end = block[0]
    new = "".join(f"\n{found.indent}{line}" if line else "\n" for line in lines)
    return Edit(at.path, Span(end.end_line, end.end_column, end.end_line, end.end_column), new)


def append_to_block(at: Location, line: str) -> Edit | None:
    """A statement at the end of the body below the header around `at`."""
    first, block = first_inside(at), body(at)
    inner_ = statement(first) if first is not None else None
    if inner_ is None or block is None:
        return None
    end = block[0]
    return Edit(at.path, Span(end.end_line, end.end_column, end.end_line, end.end_column), f"\n{inner_.indent}{line}")


def rewrite_block(at: Location, *lines: str) -> Edit | None:
    """The header around `at` and its body become these statements; comments are kept."""
    found, block = statement(at), body(at)
    source = _text(at.path)
    if found is None or block is None or source is None:
        return None
    span = Span(found.span.line, found.span.column, block[0].end_line, block[0].end_column)
    notes = comments(source.source, span)
    new = [*lines[:-1], f"{lines[-1]}  {notes[0]}"] if len(notes) == 1 else [*notes, *lines]
    return Edit(at.path, span, f"\n{found.indent}".join(new))


def wrap(at: Location, ahead: Sequence[str], behind: Sequence[str] = ()) -> Edit | None:
    """The statement around `at`, with its body, moves into the block that the last line of `ahead` opens.

    None for a loop with `else`, and where a text over several lines would change by its new indentation.
    """
    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.indent.strip() or (found.compound and has_else(at)):
        return None
    if _shared(at) is not None:
        return None
    block = body(at) if found.compound else None
    if found.compound and block is None:
        return None
    first, last = found.span.line, block[0].end_line if block is not None else found.span.end_line
    lines = source.source.lines[first - 1 : last]
    if _has_long_text("\n".join(lines)):
        return None
    inside = [f"{found.indent}    {line[len(found.indent) :]}" if line.strip() else line for line in lines]
    new = [*(found.indent + line for line in ahead), *inside, *(found.indent + line for line in behind)]
    return Edit(at.path, Span(first, 1, last, len(lines[-1]) + 1), "\n".join(new))


def wrap_lines(first: Location, last: Location, header: str) -> Edit | None:
    """The simple statements from `first` to `last`, which stand in one body, move into a block below `header`."""
    one, two, source = statement(first), statement(last), _text(first.path)
    if one is None or two is None or source is None or one.indent.strip() or one.indent != two.indent:
        return None
    rows = source.source.lines[one.span.line - 1 : two.span.end_line]
    if _has_long_text("\n".join(rows)):
        return None
    inside = [f"{one.indent}    {row[len(one.indent) :]}" if row.strip() else row for row in rows]
    span = Span(one.span.line, 1, two.span.end_line, len(rows[-1]) + 1)
    return Edit(first.path, span, "\n".join([one.indent + header, *inside]))


def drop_block(at: Location) -> Edit | None:
    """The header around `at` goes, and its body; comments are kept, and `pass` where nothing would be left."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None or has_else(at) or found.indent.strip():
        return None
    notes = comments(source.source, Span(found.span.line, 1, block[0].end_line, 1))
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    number = source.statements.index(found)
    opens = number > 0 and source.statements[number - 1].compound
    opens = opens and len(source.statements[number - 1].indent) < len(found.indent)
    left = following is not None and len(following.indent) >= len(found.indent)
    kept = [*notes, *(["pass"] if opens and not left else [])]
    if block[0].end_line >= len(source.source.lines):
        return Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), found.indent + "pass")
    new = "".join(f"{found.indent}{line}\n" for line in kept)
    return Edit(at.path, Span(found.span.line, 1, block[0].end_line + 1, 1), new)


def unwrap(at: Location) -> Edit | None:
    """The body below the header around `at` takes the place of both."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None or has_else(at) or found.indent.strip():
        return None
    if _has_long_text("\n".join(block[1])):
        return None
    notes = comments(source.source, Span(found.span.line, 1, found.span.end_line, 1))
    new = [found.indent + line if line else line for line in (*notes, *block[1])]
    return Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), "\n".join(new))
