"""Applies the fixes that rules supply: text edits, right to left, whole fixes or nothing.

Glossary:
    fix      edits that belong together; either all of them are applied or none.
    clash    two fixes touch the same text; the first by place wins, the other comes in the next round.
    round    edits are applied, the result is analysed again, until nothing is left to fix.
    change   a file's text before and after.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphlint.finding import Edit, Finding, Fix
from graphlint.source import Source, SourceError, Span

ROUNDS = 10
_LINE_END = re.compile(r"\r\n|\r|\n")


class FixError(Exception):
    """A file that was not fixed; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Change:
    """`old` is what the analysis read; `fixes` how many findings the new text cures."""

    source: Source
    new: str
    fixes: int

    @property
    def path(self) -> Path:
        return self.source.path


def digest(text: str) -> str:
    """Of a file's text, to tell later whether it is still the one that was analysed."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def wanted(findings: Iterable[Finding], *, unsafe: bool) -> list[Fix]:
    """The fixes that may be applied, in order of place, each once."""
    fixes = [f.fix for f in sorted(findings, key=lambda f: f.at) if f.fix is not None and (f.fix.safe or unsafe)]
    return list(dict.fromkeys(fixes))


def plan(fixes: Iterable[Fix], sources: Mapping[str, Source]) -> dict[str, tuple[list[Edit], int]]:
    """The edits to make in each file and how many fixes they stand for; fixes that clash with earlier ones are left.

    An edit that another fix also makes, word for word, is made once and serves both.
    """
    taken: dict[str, dict[Edit, tuple[int, int]]] = {}
    counts: dict[str, int] = {}
    for fix in fixes:
        places: dict[Edit, tuple[int, int]] = {}
        try:
            for edit in fix.edits:
                places[edit] = offsets(sources[edit.path], edit.span)
        except (KeyError, FixError):
            continue
        if not places or any(_clashes(e, p, taken.get(e.path, {})) for e, p in places.items()):
            continue
        if any(_overlap(p, q) for e, p in places.items() for f, q in places.items() if e != f and e.path == f.path):
            continue
        for edit, place in places.items():
            taken.setdefault(edit.path, {})[edit] = place
        counts[fix.edits[0].path] = counts.get(fix.edits[0].path, 0) + 1
    return {path: (list(edits), counts.get(path, 0)) for path, edits in taken.items()}


def _clashes(edit: Edit, place: tuple[int, int], taken: Mapping[Edit, tuple[int, int]]) -> bool:
    return edit not in taken and any(_overlap(place, other) for other in taken.values())


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    """Two insertions at one place clash too: their order is not known. Edits that only touch do not."""
    if a[0] == a[1] or b[0] == b[1]:
        inner, outer = (a, b) if a[0] == a[1] else (b, a)
        if outer[0] == outer[1]:
            return inner[0] == outer[0]
        return outer[0] < inner[0] < outer[1]
    return a[0] < b[1] and b[0] < a[1]


def offsets(source: Source, span: Span) -> tuple[int, int]:
    """The span as offsets into the text.

    Raises:
        FixError: the span does not lie in the text.
    """
    starts = line_starts(source)

    def offset(line: int, column: int) -> int:
        if not 1 <= line <= len(starts):
            raise FixError(f"line {line} is not in the file")
        place = starts[line - 1] + column - 1
        if column < 1 or column - 1 > len(source.lines[line - 1]):
            raise FixError(f"column {column} is not in line {line}")
        return place

    start, end = offset(span.line, span.column), offset(span.end_line, span.end_column)
    if end < start:
        raise FixError("the span ends before it starts")
    return start, end


def line_starts(source: Source) -> list[int]:
    """The offset of each line; one more entry than line ends."""
    return [0, *(m.end() for m in _LINE_END.finditer(source.text))]


def line_end(text: str) -> str:
    """The line end that most lines of a file have."""
    ends = _LINE_END.findall(text)
    return max(("\n", "\r\n", "\r"), key=ends.count) if ends else "\n"


def rewrite(source: Source, edits: Iterable[Edit]) -> str:
    """The text with the edits made, right to left, in the file's own line ends."""
    end = line_end(source.text)
    text = source.text
    for start, stop, new in sorted(((*offsets(source, e.span), e.text) for e in edits), reverse=True):
        text = text[:start] + _LINE_END.sub(lambda _: end, new) + text[stop:]
    return text


def changes(
    findings: Iterable[Finding], digests: Mapping[str, str], *, unsafe: bool, texts: Mapping[str, str] | None = None
) -> Iterator[Change | FixError]:
    """What applying the fixes would make of each file. `texts` stands for files on disk; of a
    notebook it has the joined cells.

    Yields a FixError for a file that changed since it was analysed, cannot be read, or would not parse any more.
    """
    fixes = wanted(findings, unsafe=unsafe)
    sources: dict[str, Source] = {}
    for path in sorted({e.path for fix in fixes for e in fix.edits}):
        try:
            text = (texts or {}).get(path)
            source = Source(Path(path), text) if text is not None else Source.read(Path(path))
            if digests.get(path) != digest(source.text):
                raise FixError(f"{path}: changed since it was read, not fixed")
            sources[path] = source
        except SourceError as error:
            yield FixError(f"{path}: {error}")
        except FixError as error:
            yield error
    for path, (edits, count) in plan(fixes, sources).items():
        source = sources[path]
        new = rewrite(source, edits)
        if new == source.text:
            continue
        if parses(source.text) and not parses(new):
            yield FixError(f"{path}: the fixes would break the syntax, not fixed; please report this")
            continue
        yield Change(source, new, count)


def parses(text: str) -> bool:
    import warnings

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def write(change: Change) -> None:
    """Writes a change in place: atomically, in the file's encoding, with its BOM and its permissions.

    Raises:
        FixError: the file is not what was read, cannot hold the new text, or cannot be written.
    """
    source = change.source
    target = Path(os.path.realpath(source.path))
    try:
        data = change.new.encode(source.encoding)
    except UnicodeEncodeError as error:
        raise FixError(
            f"{source.path}: {source.encoding} cannot hold {error.object[error.start]!r}, not fixed"
        ) from None
    if source.bom:
        data = b"\xef\xbb\xbf" + data
    temporary = ""
    try:
        mode = os.stat(target).st_mode
        if not os.access(target, os.W_OK):
            raise PermissionError(13, "read-only file")
        handle, temporary = tempfile.mkstemp(prefix=".graphlint-", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode & 0o7777)
        if Source.read(target).text != source.text:
            raise FixError(f"{source.path}: changed since it was read, not fixed")
        os.replace(temporary, target)
        temporary = ""
    except SourceError as error:
        raise FixError(f"{source.path}: {error}") from None
    except OSError as error:
        raise FixError(f"{source.path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            os.unlink(temporary)


def diff(change: Change, name: str) -> str:
    """A unified diff that `patch -p1` and `git apply` take; lines are split as Python does."""
    from difflib import unified_diff

    old, new = (_keep_ends(text) for text in (change.source.text, change.new))
    rows = []
    for row in unified_diff(old, new, f"a/{name}", f"b/{name}"):
        if row.endswith("\n"):
            rows.append(row)
        else:
            rows.append(row + ("\n" if row.startswith(("---", "+++", "@@")) else "\n\\ No newline at end of file\n"))
    return "".join(rows)


def _keep_ends(text: str) -> list[str]:
    """Lines with their ends; a lone CR does not end one, since diff and patch know only LF."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)
