"""What a long-running server keeps between one Program and the next: files, modules, text searches.

An edit changes one file; everything that was read, indexed or lowered from the others stays. A `WarmProgram` answers
exactly as a `Program` of the same files would.

Glossary:
    stamp   what tells that a file is still the same: time, size and inode, or the text of an editor's buffer.
    trail   what a piece of work asked of the program, with the answers: as long as they are the same, so is its result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from graphlint.program.disk import CACHE_BYTES, Disk
from graphlint.program.imports import Target
from graphlint.program.module import Module
from graphlint.program.program import UNREAD, Program
from graphlint.source import Source

Stamp: TypeAlias = "tuple[int, int, int] | str | None"
Trail: TypeAlias = "dict[tuple[str, ...], object]"


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


class _WarmDisk(Disk):
    """Reads through the store."""

    __slots__ = ("program",)

    def __init__(self, overlay: Mapping[str, str], program: WarmProgram) -> None:
        super().__init__(overlay)
        self.program = program

    def read(self, path: str, keep: bool = True) -> bytes:
        program = self.program
        stamp = program.stamp(path)
        program.note(("stamp", path), stamp)
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


class _Outlines(dict[str, "tuple[bytes | None, tuple[str, ...]]"]):
    """Remembered outlines of files; a look at one rests on the file."""

    def __init__(self, program: WarmProgram) -> None:
        super().__init__()
        self.program = program

    def __contains__(self, path: object) -> bool:
        self.program.note(("stamp", str(path)), self.program.stamp(str(path)))
        return super().__contains__(path)


class WarmProgram(Program):
    """A Program over a store. `cancelled` is asked often; once it says yes, whatever runs ends with Cancelled."""

    def __init__(
        self,
        warm: Warm,
        files: Sequence[Path],
        roots: Sequence[Path],
        site_packages: Path | Sequence[Path] | None = None,
        overlay: Mapping[Path, str] | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(files, roots, site_packages, overlay)
        self.warm = warm
        self.cancelled = cancelled
        self.only: frozenset[str] | None = None
        """If given, captures are looked for in these files only."""
        self._stamps: dict[str, Stamp] = {}
        self._trails: list[Trail] = []
        self._rested: dict[tuple[str, str], Trail] = {}
        """Of answers that the program remembers, what they rested on."""
        self.outlines = _Outlines(self)
        self.disk = _WarmDisk(self.disk.overlay, self)
        warm.follow({str(file): self.stamp(str(file)) for file in self.files})

    # ---------------------------------------------------------------------------------------- trails

    @contextmanager
    def trail(self) -> Iterator[Trail]:
        """Everything that is asked inside, with the answers."""
        trail: Trail = {}
        self._trails.append(trail)
        try:
            yield trail
        finally:
            self._trails.remove(trail)

    def note(self, key: tuple[str, ...], answer: object) -> None:
        for trail in self._trails:
            trail[key] = answer

    def holds(self, trail: Trail) -> bool:
        """Whether this program would give the same answers."""
        for key, answer in trail.items():
            kind, *rest = key
            if kind == "module":
                now: object = self.module(Path(rest[0]))
            elif kind == "stamp":
                now = self.stamp(rest[0])
            elif kind == "locate":
                now = self._locate_from(rest[0], rest[1])
            elif kind == "subclassing":
                now = self.subclassing(rest[0], int(rest[1]))
            else:
                now = self._mentioned(rest[0])
            if now is not answer and now != answer:
                return False
        return True

    def stamp(self, path: str) -> Stamp:
        """Of a file as this program sees it: asked of the system once."""
        if path not in self._stamps:
            text = self.disk.overlay.get(path)
            if text is not None:
                self._stamps[path] = text
            else:
                try:
                    status = os.stat(path)
                    self._stamps[path] = status.st_mtime_ns, status.st_size, status.st_ino
                except OSError:
                    self._stamps[path] = None
        return self._stamps[path]

    def _stop(self) -> None:
        if self.cancelled():
            raise Cancelled

    # ---------------------------------------------------------------------------------------- modules

    def module(self, path: Path) -> Module | None:
        key = os.path.abspath(path)
        self._stop()
        if key not in self._modules:
            self._recall(key)
        made = super().module(path)
        self.note(("module", key), made)
        return made

    def _recall(self, key: str) -> None:
        """Takes the module from the store, or makes it and puts it there."""
        stamp, name, in_project = self.stamp(key), self._name(key), self._is_project(key)
        kept = self.warm.modules.get(key)
        if kept is None or (kept.stamp, kept.name, kept.in_project) != (stamp, name, in_project):
            made = super().module(Path(key))
            kept = _Kept(stamp, name, in_project, made, self.errors.get(Path(key)))
            self.warm.modules[key] = kept
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
            self.note(("stamp", key), kept.stamp)
            return kept.module.source
        return super().source(path)

    def locate(self, dotted: str, importer: Module | None = None) -> str | None:
        self._stop()
        found = super().locate(dotted, importer)
        start = "" if importer is None else str(importer.path if importer.path.suffix == "" else importer.path.parent)
        self.note(("locate", dotted, start), found)
        return found

    def import_target(self, module: Module, name: str) -> Target:
        key = (str(module.path), name)
        if key in self._targets:
            for trail in self._trails:
                trail.update(self._rested[key])
            return self._targets[key]
        with self.trail() as rested:
            found = super().import_target(module, name)
        self._rested[key] = rested
        return found

    def _locate_from(self, dotted: str, start: str) -> str | None:
        """What `locate` says to an importer in the folder `start`."""
        if not dotted or dotted.partition(".")[0] in UNREAD:
            return None
        key = (dotted, start)
        if key not in self._located:
            self._located[key] = self._locate(dotted.split("."), start)
        return self._located[key]

    # ---------------------------------------------------------------------------------------- text search

    def mentions(self, token: str, limit: int | None = None) -> tuple[Path, ...]:
        self._stop()
        found = self._mentioned(token)
        self.note(("mentions", token), found)
        return found if limit is None else found[:limit]

    def subclassing(self, name: str, limit: int) -> tuple[Path, ...]:
        trails, self._trails = self._trails, []
        try:
            found = super().subclassing(name, limit)
        finally:
            self._trails = trails
        self.note(("subclassing", name, str(limit)), found)
        return found

    def capture_files(self, more: Iterable[str | bytes] = ()) -> tuple[Path, ...]:
        self._stop()
        given = tuple(m if isinstance(m, str) else m.decode("utf-8", "replace") for m in more)

        def holds(data: bytes) -> bool:
            alone = Program([Path("/file.py")], [], None, {Path("/file.py"): data.decode("utf-8", "replace")})
            return bool(alone.capture_files(given))

        found = self._search(("captures", *given), partial(Program.capture_files, self, given), holds)
        return found if self.only is None else tuple([path for path in found if str(path) in self.only])

    def _mentioned(self, token: str) -> tuple[Path, ...]:
        pattern = _whole_word(token)
        return self._search(
            ("mentions", token), partial(Program.mentions, self, token), lambda data: bool(pattern.search(data))
        )

    def _search(
        self, key: tuple[str, ...], everywhere: Callable[[], tuple[Path, ...]], holds: Callable[[bytes], bool]
    ) -> tuple[Path, ...]:
        """Looks at all files once, later only at those that changed since."""
        search, changes = self.warm.searches.get(key), self.warm.changes
        # The answer goes on the trail as a whole, not every file that was looked at.
        trails, self._trails = self._trails, []
        try:
            if search is None:
                search = _Search({str(path) for path in everywhere()}, len(changes))
                self.warm.searches[key] = search
            for path in set(changes[search.position :]):
                if path in self._files and self._has(path, holds):
                    search.found.add(path)
                else:
                    search.found.discard(path)
            search.position = len(changes)
        finally:
            self._trails = trails
        return tuple([Path(path) for path in sorted(search.found)])

    def _has(self, path: str, holds: Callable[[bytes], bool]) -> bool:
        try:
            return holds(self.disk.read(path))
        except OSError:
            return False


def _whole_word(word: str) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![\w\x80-\xff])" + re.escape(word.encode("utf-8")) + rb"(?![\w\x80-\xff])")
