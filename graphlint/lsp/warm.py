"""What a server keeps between one Program and the next: files, modules, text searches.

An edit changes one file; everything that was read, indexed or lowered from the others stays. A `WarmProgram` answers
exactly as a `NotingProgram` of the same files would.

Glossary:
    stamp   what tells that a file is still the same: time, size and inode, or the text of an editor's buffer.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from graphlint.noting import NotingDisk, NotingProgram
from graphlint.program.disk import CACHE_BYTES
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.source import Source

Stamp: TypeAlias = "tuple[int, int, int] | str | None"
_EVERY = 1 << 30


class Cancelled(BaseException):
    """The work is not wanted any more. Not an Exception: nothing on the way may take it for a failure of its own."""


@dataclass(slots=True)
class _Kept:
    """A module as it was made, or the one line that says why it could not be."""

    stamp: Stamp
    name: tuple[str, bool]
    in_project: bool
    module: Module | None
    error: str | None


@dataclass(slots=True)
class _Search:
    """Files that hold a text, as far as the log of changes was followed."""

    found: set[str]
    position: int


@dataclass(slots=True)
class Warm:
    """The store. Not for use by two programs at the same time."""

    modules: dict[str, _Kept] = field(default_factory=dict)
    data: dict[str, tuple[Stamp, bytes]] = field(default_factory=dict)
    size: int = 0
    stamps: dict[str, Stamp] = field(default_factory=dict)
    """Of the project's files, as the last program saw them."""
    changes: list[str] = field(default_factory=list)
    """Project files that changed, came or went, in order: what every search has to look at again."""
    searches: dict[tuple[str, ...], _Search] = field(default_factory=dict)

    def keep(self, path: str, stamp: Stamp, data: bytes) -> None:
        old = self.data.pop(path, None)
        self.size -= len(old[1]) if old else 0
        if self.size + len(data) <= CACHE_BYTES:
            self.data[path] = stamp, data
            self.size += len(data)

    def follow(self, stamps: dict[str, Stamp]) -> None:
        """Notes what changed since the last program."""
        old = self.stamps
        changed = [path for path, stamp in stamps.items() if path not in old or old[path] != stamp]
        changed += [path for path in old if path not in stamps]
        self.changes += changed
        self.stamps = stamps
        if len(self.changes) > 20_000:
            self.changes.clear()
            self.searches.clear()


@dataclass(slots=True)
class _WarmDisk(NotingDisk):
    """Reads through the store."""

    warm_program: WarmProgram | None = None

    def read(self, path: str, keep: bool = True) -> bytes:
        return NotingDisk.read(self, path, False)

    def scan(self, path: str) -> bytes:
        program = self.warm_program
        assert program is not None
        stamp = program.stamp(path)
        kept = program.warm.data.get(path)
        if kept is not None and kept[0] == stamp:
            return kept[1]
        # Past what the base class remembers: it belongs to one program, the store outlives it.
        text = self.overlay.get(path)
        if text is not None:
            data = text.encode("utf-8", "surrogatepass")
        else:
            with open(path, "rb") as file:
                data = file.read()
        program.warm.keep(path, stamp, data)
        return data


class WarmProgram(NotingProgram):
    """A Program over a store. `cancelled` is asked often; once it says yes, whatever runs ends with Cancelled."""

    def __init__(
        self,
        warm: Warm,
        files: Sequence[Path],
        roots: Sequence[Path],
        sites: Sequence[Path] = (),
        overlay: Mapping[Path, str] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(files, roots, sites, overlay or {})
        self.warm = warm
        self.cancelled = cancelled
        self.stamps: dict[str, Stamp] = {}
        """Of every file that was asked for, as this program sees it."""
        self.disk = self._noting = _WarmDisk(self.disk.overlay, program=self, warm_program=self)
        warm.follow({str(file): self.stamp(str(file)) for file in self.files})

    def stamp(self, path: str) -> Stamp:
        """Of a file as this program sees it: asked of the system once."""
        if path not in self.stamps:
            text = self.disk.overlay.get(path)
            self.stamps[path] = text if text is not None else stamp_of(path)
        return self.stamps[path]

    def stop(self) -> None:
        """Ends the work if it is not wanted any more.

        Raises:
            Cancelled: it is not.
        """
        if self.cancelled():
            raise Cancelled

    # ---------------------------------------------------------------------------------------- modules

    def module(self, path: Path) -> Module | None:
        self.stop()
        return super().module(path)

    def load(self, path: Path) -> Module | None:
        key = os.path.abspath(path)
        if key not in self._modules:
            self._recall(key)
        return super().load(path)

    def _recall(self, key: str) -> None:
        """Takes the module from the store, or makes it and puts it there."""
        stamp, name, in_project = self.stamp(key), self._name(key), self.is_project(key)
        self.notes.opened.add(key)
        kept = self.warm.modules.get(key)
        if kept is None or (kept.stamp, kept.name, kept.in_project) != (stamp, name, in_project):
            made = super().load(Path(key))
            self.warm.modules[key] = _Kept(stamp, name, in_project, made, self.errors.get(Path(key)))
            return
        self._modules[key] = kept.module
        if kept.module is None:
            self.errors[Path(key)] = kept.error or "cannot be read"
        elif kept.module.errors is not self.errors:
            told = kept.module.errors.get(kept.module.path)
            kept.module.errors = self.errors
            if told is not None:
                self.errors.setdefault(kept.module.path, told)

    def source(self, path: Path) -> Source:
        key = os.path.abspath(path)
        kept = self.warm.modules.get(key)
        if kept is not None and kept.module is not None and kept.stamp == self.stamp(key):
            self.notes.opened.add(key)
            return kept.module.source
        return super().source(path)

    def locate(self, dotted: str, importer: Module | None = None) -> str | None:
        self.stop()
        return super().locate(dotted, importer)

    # ---------------------------------------------------------------------------------------- text search

    def search(self, kind: str, words: tuple[str, ...], limit: int) -> tuple[Path, ...]:
        self.stop()
        everywhere = partial(NotingProgram.search, self, kind, words, _EVERY if kind == "subclassing" else 0)
        found = self._search((kind, *words), everywhere, self._holds(kind, words))
        return found[:limit] if limit else found

    def _holds(self, kind: str, words: tuple[str, ...]) -> Callable[[bytes], bool]:
        """Whether a text is among what a search finds."""
        if kind == "mentions":
            pattern = re.compile(rb"(?<![\w\x80-\xff])" + re.escape(words[0].encode("utf-8")) + rb"(?![\w\x80-\xff])")
            return lambda data: pattern.search(data) is not None

        def holds(data: bytes) -> bool:
            file = Path("/file.py")
            return Program([file], [], None, {file: data.decode("utf-8", "replace")}).matches(kind, words)

        return holds

    def _search(
        self, key: tuple[str, ...], everywhere: Callable[[], tuple[Path, ...]], holds: Callable[[bytes], bool]
    ) -> tuple[Path, ...]:
        """Looks at all files once, later only at those that changed since."""
        search, changes = self.warm.searches.get(key), self.warm.changes
        if search is None:
            search = _Search({str(path) for path in everywhere()}, len(changes))
            self.warm.searches[key] = search
        for path in set(changes[search.position :]):
            if path in self._files and self._has(path, holds):
                search.found.add(path)
            else:
                search.found.discard(path)
        search.position = len(changes)
        return tuple([Path(path) for path in sorted(search.found)])

    def _has(self, path: str, holds: Callable[[bytes], bool]) -> bool:
        try:
            return holds(self._noting.scan(path))
        except OSError:
            return False

    def _texts(self) -> Iterator[tuple[Path, bytes]]:
        for file, data in super()._texts():
            self.stop()
            yield file, data


def stamp_of(path: str) -> Stamp:
    """Of a file on disk, None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
