"""A Program that notes what it is asked, and what a later change to a file means for the answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphlint.program.disk import Disk
from graphlint.program.program import Program
from graphlint.trail import Query, Trail


@dataclass(slots=True)
class _Noting(Disk):
    opened: set[str] = field(default_factory=set)

    def read(self, path: str, keep: bool = True) -> bytes:
        self.opened.add(path)
        return Disk.read(self, path, keep)

    def scan(self, path: str) -> bytes:
        return Disk.read(self, path, False)


class NotingProgram(Program):
    """A Program that notes what it is asked."""

    def __init__(
        self, files: Sequence[Path], roots: Sequence[Path], sites: Sequence[Path], overlay: Mapping[Path, str]
    ) -> None:
        super().__init__(files, roots, sites, overlay)
        self._noting = _Noting(self.disk.overlay)
        self.disk = self._noting
        self._queries: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    def mentions(self, token: str, limit: int | None = None) -> tuple[Path, ...]:
        found = super().mentions(token, limit)
        # Asked twice with different limits, the longer answer tells more.
        known = self._queries.get(("mentions", (token,)), ())
        self._queries["mentions", (token,)] = max(known, tuple(map(str, found)), key=len)
        return found

    def capture_files(self, more: Iterable[str | bytes] = ()) -> tuple[Path, ...]:
        words = tuple(m if isinstance(m, str) else m.decode("latin-1") for m in more)
        found = super().capture_files(words)
        self._queries["captures", words] = tuple(map(str, found))
        return found

    def _texts(self) -> Iterator[tuple[Path, bytes]]:
        for file in self.files:
            try:
                yield file, self._noting.scan(str(file))
            except OSError:
                continue

    def trail(self) -> Trail:
        opened = tuple(sorted(self._noting.opened - set(self.disk.overlay)))
        return Trail(opened, tuple(Query(kind, words, m) for (kind, words), m in sorted(self._queries.items())))


def irrelevant(changed: Iterable[str], trail: Trail) -> bool:
    """Whether files with a new content cannot change what the analysis said."""
    files = [os.path.abspath(path) for path in changed]
    opened = set(trail.opened)
    if any(path in opened for path in files):
        return False
    # Only the changed files are read, by a Program that has no others.
    program = Program([Path(path) for path in files], [])
    for query in trail.queries:
        now = program.mentions(query.words[0]) if query.kind == "mentions" else program.capture_files(query.words)
        before = set(query.matched)
        if {str(path) for path in now} != {path for path in files if path in before}:
            return False
    return True
