"""Jupyter notebooks: code cells joined into one text, with what is not Python masked, and the way back to the cells.

Glossary:
    magic   a line that IPython takes for itself: `%time`, `!ls`, `x = !ls`, `%%bash` for a whole cell, `help?`.
    joined  the text that is analysed: all code cells in order, a line for each of theirs.
    cell    counted from 1 over all cells, text cells included, as an editor shows them.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from graphlint.finding import Finding, Note
from graphlint.source import MAX_BYTES, Location, SourceError, Span

#: Cell magics whose body is Python that runs in the notebook itself.
_PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%python", "%%python3", "%%memit", "%%debug")
_MAGIC = re.compile(r"^(\s*)(?:[%!?]|[\w.,\s]+=\s*[!%]\s*\w)|^(\s*)[\w.]+\?{1,2}\s*$")
#: Between a notebook's path and the number of a cell in the path of a location that was sent back to its cell.
_MARK = "\0cell\0"


@dataclass(frozen=True, slots=True)
class Cell:
    """`first` is the line of the joined text where it starts; `text` is its own, unmasked."""

    number: int
    first: int
    text: str


@dataclass(frozen=True, slots=True)
class Notebook:
    joined: str
    cells: tuple[Cell, ...]

    def cell(self, line: int) -> Cell | None:
        """The cell of a line of the joined text, None if the notebook has no code."""
        position = bisect_right([c.first for c in self.cells], line) - 1
        return self.cells[max(position, 0)] if self.cells else None


def read(path: Path) -> Notebook:
    """The notebook in a file.

    Raises:
        SourceError: it cannot be read, or is no notebook with Python in it.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(10 * MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from None
    if len(data) > 10 * MAX_BYTES:
        raise SourceError(f"larger than {10 * MAX_BYTES // 1_000_000} MB, not checked")
    return parse(data)


def parse(data: bytes) -> Notebook:
    """The notebook that these bytes are.

    Raises:
        SourceError: they are no notebook.
    """
    try:
        content: Any = json.loads(data)
        cells = content["cells"] if "cells" in content else content["worksheets"][0]["cells"]
        language = content.get("metadata", {}).get("kernelspec", {}).get("language", "python")
        if str(language).lower() not in ("python", "ipython"):
            return Notebook("", ())
        sources = [(n, _text(c)) for n, c in enumerate(cells, 1) if c.get("cell_type") == "code"]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise SourceError("is no notebook") from None
    return join(sources)


def join(sources: Iterable[tuple[int, str]]) -> Notebook:
    """The notebook of these code cells, each with its number; their lines end at LF."""
    found: list[Cell] = []
    lines: list[str] = []
    for number, text in sources:
        found.append(Cell(number, len(lines) + 1, text))
        lines += mask(text)
    return Notebook("\n".join(lines) + "\n" if lines else "", tuple(found))


def _text(cell: dict[str, Any]) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = source if isinstance(source, str) else "".join(str(part) for part in source)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def mask(text: str) -> list[str]:
    """The lines of a cell with its magics replaced by `pass`, so that line numbers stay."""
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if lines[start].startswith("%%") and lines[start].split()[0] not in _PYTHON_MAGICS:
        return [""] * len(lines)
    masked: list[str] = []
    inside = False
    for line in lines:
        match = _MAGIC.match(line)
        if inside or (match and not _is_continued_string(masked)):
            indent = "" if match is None else match[1] if match[1] is not None else match[2]
            masked.append("" if inside else f"{indent}pass")
            inside = line.endswith("\\")
        else:
            masked.append(line)
    return masked


def _is_continued_string(before: Iterable[str]) -> bool:
    """Whether a triple-quoted string is open: a `%` that starts a line in it is text."""
    text = "\n".join(before)
    return text.count('"""') % 2 == 1 or text.count("'''") % 2 == 1


# ------------------------------------------------------------------------------------------------- back to the cells


def split(path: str) -> tuple[str, int | None]:
    """The file and the cell of a location's path."""
    real, mark, number = path.partition(_MARK)
    return real, int(number) if mark else None


def to_cells(finding: Finding, notebooks: dict[str, Notebook]) -> Finding:
    """The finding with every place in a notebook counted in its cell."""
    if not any(at.path in notebooks for at in (finding.at, *(n.at for n in finding.notes))):
        return finding
    notes = tuple(Note(_place(n.at, notebooks), n.message) for n in finding.notes)
    return replace(finding, at=_place(finding.at, notebooks), notes=notes)


def _place(at: Location, notebooks: dict[str, Notebook]) -> Location:
    notebook = notebooks.get(at.path)
    cell = notebook.cell(at.span.line) if notebook is not None else None
    if cell is None:
        return at
    back = cell.first - 1
    span = Span(at.span.line - back, at.span.column, max(at.span.end_line - back, 1), at.span.end_column)
    return Location(f"{at.path}{_MARK}{cell.number}", span)


def texts(notebooks: dict[str, Notebook]) -> dict[str, str]:
    """The text of every cell, by the path that its locations have."""
    return {f"{path}{_MARK}{c.number}": c.text for path, book in notebooks.items() for c in book.cells}


# ------------------------------------------------------------------------------------------------- changes to cells


def changed_cells(notebook: Notebook, new: str) -> dict[int, str]:
    """The new texts of the cells that differ when the joined text becomes `new`, by number.

    Raises:
        SourceError: a change reaches over two cells, or touches a line that is not Python.
    """
    old_lines, new_lines = notebook.joined.split("\n")[:-1], new.split("\n")[:-1]
    made: dict[int, list[str]] = {}
    starts = [c.first - 1 for c in notebook.cells] + [len(old_lines)]
    for kind, first, last, begin, end in SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        index = bisect_right(starts, min(first, max(len(old_lines) - 1, 0))) - 1
        while first < last or (kind == "insert" and begin < end):
            if kind == "insert":
                index = _cell_for_insertion(notebook, index, first - starts[index])
            cell, stop = notebook.cells[index], min(last, starts[index + 1])
            own = cell.text.split("\n")[first - starts[index] : stop - starts[index]]
            rows = made.setdefault(cell.number, [])
            if kind == "equal":
                rows += own
                first, index = stop, index + 1
                continue
            if stop < last:
                raise SourceError("a fix reaches over two cells, not applied")
            if own != old_lines[first:stop]:
                raise SourceError("a fix touches a line that is not Python, not applied")
            rows += new_lines[begin:end]
            break
    texts = {number: "\n".join(rows) for number, rows in made.items()}
    return {cell.number: texts[cell.number] for cell in notebook.cells if texts.get(cell.number, "") != cell.text}


def _cell_for_insertion(notebook: Notebook, index: int, offset: int) -> int:
    """Between two cells the earlier one gets what is inserted, unless all of it belongs to another language."""
    if offset == 0 and index > 0 and not _is_foreign(notebook.cells[index - 1].text):
        return index - 1
    return index


def _is_foreign(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first.startswith("%%") and first.split()[0] not in _PYTHON_MAGICS


def replaced(raw: str, texts: dict[int, str]) -> str:
    """The text of a notebook's file with other sources in some cells, everything else as it was.

    Raises:
        SourceError: it is no notebook.
    """
    try:
        content: Any = json.loads(raw)
        cells = content["cells"] if "cells" in content else content["worksheets"][0]["cells"]
        for number, text in texts.items():
            key = "source" if "source" in cells[number - 1] else "input"
            as_list = not isinstance(cells[number - 1].get(key), str)
            cells[number - 1][key] = text.splitlines(keepends=True) if as_list else text
        unchanged: Any = json.loads(raw)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise SourceError("is no notebook") from None
    end = raw[len(raw.rstrip()) :]
    # As Jupyter writes it, or as whatever wrote this one does.
    styles = [(indent, ascii_only) for indent in (1, 2, 4, "\t", None) for ascii_only in (False, True)]
    for indent, ascii_only in styles:
        if json.dumps(unchanged, indent=indent, ensure_ascii=ascii_only) + end == raw:
            return json.dumps(content, indent=indent, ensure_ascii=ascii_only) + end
    return json.dumps(content, indent=1, ensure_ascii=False) + end
