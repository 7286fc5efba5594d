"""Findings of today, written down so that only new ones are reported.

Glossary:
    fingerprint  what a finding is known by: rule, path, function, its first line with spaces made equal, and its index
                 among findings that are equal so far. Lines may shift and files may be reformatted around it.
    stale        an entry that no finding meets any more although its file was checked.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphlint.finding import Finding
from graphlint.source import Source, SourceError

if TYPE_CHECKING:
    from graphlint.engine import Report

DEFAULT = "graphlint-baseline.json"
_VERSION = 1


class BaselineError(Exception):
    """A baseline that cannot be used; the text is one line for the user."""


@dataclass(frozen=True, slots=True, order=True)
class Fingerprint:
    """`path` has slashes and starts at the baseline's folder; `line` is the source line, spaces made equal."""

    path: str
    rule: str
    function: str
    line: str
    index: int

    @property
    def digest(self) -> str:
        """A short text that is equal for equal fingerprints; reports carry it."""
        text = "\0".join((self.rule, self.path, self.function, self.line, str(self.index)))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Lines:
    """Source lines by path and number, each file read once. `texts` stands for files on disk."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self._texts = texts or {}
        self._read: dict[str, Sequence[str]] = {}

    def __call__(self, path: str, number: int) -> str:
        if path not in self._read:
            try:
                text = self._texts.get(path)
                self._read[path] = (Source(Path(path), text) if text is not None else Source.read(Path(path))).lines
            except SourceError:
                self._read[path] = ()
        lines = self._read[path]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def relative(path: str, root: str) -> str:
    """`path` from `root`; what is installed is named from its package on, so that environments may move."""
    for folder in ("site-packages", "dist-packages"):
        head, found, tail = path.partition(f"{os.sep}{folder}{os.sep}")
        if found and not root.startswith(head + found):
            return f"{folder}/{tail}".replace(os.sep, "/")
    try:
        return os.path.relpath(path, root).replace(os.sep, "/")
    except ValueError:
        return path.replace(os.sep, "/")


def fingerprints(findings: Iterable[Finding], root: str, lines: Lines) -> list[Fingerprint]:
    """One for each finding, in order of place."""
    seen: Counter[Fingerprint] = Counter()
    found = []
    for finding in findings:
        line = " ".join(lines(finding.at.path, finding.at.line).split())
        bare = Fingerprint(relative(finding.at.path, root), finding.rule, finding.function, line[:400], 0)
        found.append(replace(bare, index=seen[bare]))
        seen[bare] += 1
    return found


def read(path: Path) -> set[Fingerprint]:
    """The entries of a baseline file.

    Raises:
        BaselineError: it cannot be read, or is no baseline.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != _VERSION:
            raise BaselineError(f"{path}: written by another version of graphlint, write it anew")
        return {_entry(item) for item in data["findings"]}
    except OSError as error:
        raise BaselineError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BaselineError(f"{path}: is no baseline; `graphlint baseline --output {path}` writes one") from None


def _entry(item: Any) -> Fingerprint:
    found = Fingerprint(item["path"], item["rule"], item["function"], item["line"], item["index"])
    if not all(isinstance(t, str) for t in (found.path, found.rule, found.function, found.line)):
        raise TypeError
    if not isinstance(found.index, int):
        raise TypeError
    return found


def write(path: Path, entries: Iterable[Fingerprint]) -> None:
    """Writes a baseline atomically, sorted, one entry a line, so that it reads well in a diff.

    Raises:
        BaselineError: it cannot be written.
    """
    rows = [json.dumps(asdict(e), ensure_ascii=False) for e in sorted(entries)]
    body = ",\n    ".join(rows)
    text = f'{{\n  "version": {_VERSION},\n  "findings": [' + (f"\n    {body}\n  " if rows else "") + "]\n}\n"
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".graphlint-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n", errors="surrogateescape") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        raise BaselineError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary:
            os.unlink(temporary)


@dataclass(frozen=True, slots=True)
class Compared:
    """`report` holds only what is new; `known` counts the rest; `stale` entries meet nothing any more."""

    report: Report
    known: int
    stale: tuple[Fingerprint, ...]


def compare(report: Report, path: Path, ran: Iterable[str], lines: Lines, targets: Iterable[str]) -> Compared:
    """Takes from `report` what the baseline at `path` knows.

    ran: names of the rules that ran, targets: the files checked; only their entries can be stale.

    Raises:
        BaselineError: the baseline cannot be read.
    """
    entries = read(path)
    root = os.path.dirname(os.path.abspath(path))
    marks = fingerprints(report.findings, root, lines)
    new = tuple(f for f, mark in zip(report.findings, marks, strict=True) if mark not in entries)
    rules = set(ran)
    checked = {relative(target, root) for target in targets}
    met = set(marks)

    def gone(entry: Fingerprint) -> bool:
        return entry.path in checked or not os.path.lexists(os.path.join(root, entry.path))

    stale = tuple(sorted(e for e in entries if e not in met and e.rule in rules and gone(e)))
    return Compared(replace(report, findings=new), len(report.findings) - len(new), stale)
