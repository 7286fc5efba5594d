"""What `--fix` and `--diff` do: apply, analyse again, until nothing is left to fix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graphlint import notebooks
from graphlint.cli import say
from graphlint.fix import ROUNDS, Change, FixError, changes, diff, digest, write
from graphlint.source import Source, SourceError

if TYPE_CHECKING:
    from graphlint.commands.check import Run
    from graphlint.engine import Report
    from graphlint.notebooks import Notebook


def diff_text(report: Report, run: Run) -> tuple[str, int]:
    """What all rounds of fixes would change, as one diff, and how many findings they would cure. Writes nothing."""
    first: dict[str, Source] = {}
    overlay: dict[Path, str] = dict(run.overlay)
    books = dict(report.notebooks)
    count = 0
    for _ in range(ROUNDS):
        made = _round(report, run, overlay)
        if not made:
            break
        for change in made:
            first.setdefault(str(change.path), change.source)
            overlay[change.path] = change.new
            count += change.fixes
        report = run.analyse(overlay)
    view = run.view()
    parts: list[str] = []
    for path, source in sorted(first.items()):
        new = overlay[Path(path)]
        if path in books:
            parts += _cell_diffs(books[path], new, view.path(path))
        elif source.text != new:
            parts.append(diff(Change(source, new, 0), view.path(path)))
    return "".join(parts), count


def _cell_diffs(book: Notebook, new: str, name: str) -> Iterator[str]:
    """Of each cell that changes, as an editor shows it."""
    texts = {cell.number: cell.text for cell in book.cells}
    for number, text in notebooks.changed_cells(book, new).items():
        yield diff(Change(Source(Path(name), texts[number]), text, 0), f"{name}:cell {number}")


def fix_all(report: Report, run: Run) -> tuple[Report, int, str | None]:
    """Writes the fixes; the report of what is left, how many findings were cured, and standard input's new text."""
    stdin = next(iter(run.overlay), None)
    count = 0
    for _ in range(ROUNDS):
        made = _round(report, run, run.overlay)
        done = 0
        for change in made:
            if stdin is not None:
                run.overlay[change.path] = change.new
            else:
                try:
                    _write(change, report.notebooks.get(str(change.path)))
                except FixError as error:
                    say(str(error))
                    continue
            done += change.fixes
        if not done:
            break
        count += done
        report = run.analyse()
    else:
        say(f"warning: fixes still change something after {ROUNDS} rounds; please report this")
    return report, count, run.overlay[stdin] if stdin is not None else None


def _write(change: Change, book: Notebook | None) -> None:
    """Writes a change in place, of a notebook the cells that it concerns.

    Raises:
        FixError: the file is not what was read, or cannot be written.
    """
    if book is None:
        write(change)
        return
    try:
        raw = Source.read(change.path)
        if notebooks.parse(raw.text.encode("utf-8", "surrogatepass")).joined != book.joined:
            raise FixError(f"{change.path}: changed since it was read, not fixed")
        new = notebooks.replaced(raw.text, notebooks.changed_cells(book, change.new))
    except SourceError as error:
        raise FixError(f"{change.path}: {error}") from None
    write(Change(raw, new, change.fixes))


def _round(report: Report, run: Run, overlay: Mapping[Path, str]) -> list[Change]:
    texts = {path: book.joined for path, book in report.notebooks.items()}
    texts |= {str(path): text for path, text in overlay.items()}
    digests = {**report.digests, **{path: digest(text) for path, text in texts.items()}}
    made: list[Change] = []
    for change in changes(report.findings, digests, unsafe=run.options["unsafe_fixes"], texts=texts):
        if isinstance(change, FixError):
            say(str(change))
        elif _reaches_cells(change, report.notebooks.get(str(change.path))):
            made.append(change)
    return made


def _reaches_cells(change: Change, book: Notebook | None) -> bool:
    """Whether a change of a notebook's joined text can be made in its cells."""
    try:
        if book is not None and change.source.text == book.joined:
            notebooks.changed_cells(book, change.new)
    except SourceError as error:
        say(f"{change.path}: {error}")
        return False
    return True
