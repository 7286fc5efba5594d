"""A Program that notes what it is asked: by whom, and what the answers rested on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from graphlint.program.disk import Disk
from graphlint.program.imports import Target
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.source import Source
from graphlint.trail import Notes, Query

T = TypeVar("T")


@dataclass(slots=True)
class NotingDisk(Disk):
    """`read` is noted, `scan` is not: a search looks at every file and rests on its answer only."""

    program: NotingProgram | None = None

    def read(self, path: str, keep: bool = True) -> bytes:
        if self.program is not None:
            self.program.notes.opened.add(path)
        return self.scan(path) if not keep else Disk.read(self, path, keep)

    def scan(self, path: str) -> bytes:
        return Disk.read(self, path, False)

    def listing(self, folder: str) -> tuple[frozenset[str], frozenset[str]]:
        if self.program is not None:
            self.program.notes.listed.add(folder)
        return Disk.listing(self, folder)


class _Outlines(dict[str, "tuple[bytes | None, tuple[str, ...]]"]):
    """Remembered outlines of files; a look at one rests on the file."""

    def __init__(self, program: NotingProgram) -> None:
        super().__init__()
        self.program = program

    def __contains__(self, path: object) -> bool:
        self.program.notes.opened.add(str(path))
        return super().__contains__(path)


class NotingProgram(Program):
    """A Program that notes what it is asked.

    Answers that are remembered from an earlier question are noted again with what they rested on: each piece of work
    has the whole trail of its own, whatever ran before it.
    """

    def __init__(
        self, files: Sequence[Path], roots: Sequence[Path], sites: Sequence[Path], overlay: Mapping[Path, str]
    ) -> None:
        self.notes = Notes()
        super().__init__(files, roots, sites, overlay)
        self.only: frozenset[str] | None = None
        """If given, captures are looked for in these files only."""
        self.outlines = _Outlines(self)
        self.disk = self._noting = NotingDisk(self.disk.overlay, program=self)
        self._rested: dict[object, Notes] = {}
        self._found: dict[tuple[str, tuple[str, ...], int], tuple[Path, ...]] = {}

    @contextmanager
    def noted(self) -> Iterator[Notes]:
        """Notes of what is asked inside; those around do not get them."""
        outer, self.notes = self.notes, Notes()
        try:
            yield self.notes
        finally:
            self.notes = outer

    def _resting(self, key: object, work: Callable[[], T]) -> T:
        """The answer of `work`, which remembers by itself; what it rested on is noted each time."""
        if key in self.notes.done:
            return work()
        rested = self._rested.get(key)
        if rested is not None:
            answer = work()
        else:
            with self.noted() as rested:
                answer = work()
            self._rested[key] = rested
        self.notes.add(rested)
        self.notes.done.add(key)
        return answer

    def module(self, path: Path) -> Module | None:
        key = ("module", str(path))
        return self.load(path) if key in self.notes.done else self._resting(key, lambda: self.load(path))

    def load(self, path: Path) -> Module | None:
        """The module, without a note that it was asked for."""
        return Program.module(self, path)

    def source(self, path: Path) -> Source:
        self.notes.opened.add(os.path.abspath(path))
        return Program.source(self, path)

    def locate(self, dotted: str, importer: Module | None = None) -> str | None:
        key = ("locate", dotted, "" if importer is None else str(importer.path))
        if key in self.notes.done:
            return Program.locate(self, dotted, importer)
        return self._resting(key, lambda: Program.locate(self, dotted, importer))

    def import_target(self, module: Module, name: str) -> Target:
        key = ("target", str(module.path), name)
        if key in self.notes.done:
            return Program.import_target(self, module, name)
        return self._resting(key, lambda: Program.import_target(self, module, name))

    # ---------------------------------------------------------------------------------------- text search

    def _searched(self, kind: str, words: tuple[str, ...], limit: int) -> tuple[Path, ...]:
        key = (kind, words, limit)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self.search(kind, words, limit)
        if key not in self.notes.queries:
            self.notes.queries[key] = tuple(map(str, found))
        return found

    def search(self, kind: str, words: tuple[str, ...], limit: int) -> tuple[Path, ...]:
        """The answer to a query, without a note of it."""
        if kind == "mentions":
            return Program.mentions(self, words[0], limit or None)
        if kind == "subclassing":
            return Program.subclassing(self, words[0], limit)
        if kind == "filling":
            return Program.filling(self, words[0])
        return Program.capture_files(self, words)

    def mentions(self, token: str, limit: int | None = None) -> tuple[Path, ...]:
        return self._searched("mentions", (token,), limit or 0)

    def subclassing(self, name: str, limit: int) -> tuple[Path, ...]:
        return self._searched("subclassing", (name,), limit)

    def filling(self, name: str) -> tuple[Path, ...]:
        return self._searched("filling", (name,), 0)

    def capture_files(self, more: Iterable[str | bytes] = ()) -> tuple[Path, ...]:
        words = tuple(m if isinstance(m, str) else m.decode("latin-1") for m in more)
        if self.only is not None:
            return tuple(path for path in self.files if str(path) in self.only)
        return self._searched("captures", words, 0)

    def _texts(self) -> Iterator[tuple[Path, bytes]]:
        for file in self.files:
            try:
                yield file, self._noting.scan(str(file))
            except OSError:
                continue


class Matcher:
    """Answers queries for single files."""

    def __init__(self, overlay: Mapping[Path, str]) -> None:
        self.overlay = overlay
        self._programs: dict[str, Program] = {}
        self._known: dict[tuple[str, tuple[str, ...], int, str], bool] = {}

    def __call__(self, query: Query, path: str) -> bool:
        key = (query.kind, query.words, query.limit, path)
        if key not in self._known:
            self._known[key] = self._asked(query, path)
        return self._known[key]

    def _asked(self, query: Query, path: str) -> bool:
        program = self._programs.get(path)
        if program is None:
            program = self._programs[path] = Program([Path(path)], [], None, self.overlay)
        return program.matches(query.kind, query.words)
