"""Remembers what an analysis said, and what each root's run rested on, for as long as that has not changed.

Glossary:
    entry    what was said of a scope as a whole; it holds while no file of the scope has changed.
    memory   the runs and plans of a project, whatever was asked about; of these, what rests on no changed file holds.

Both are sealed files in `.graphlint_cache/`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graphlint import __version__, sealed
from graphlint.config import Config, as_toml
from graphlint.engine import Raw
from graphlint.registry import Registry
from graphlint.runs import FilePlan, Known, Run, Since, still_known
from graphlint.signature import Signature, renewed, stat_of, unchanged

if TYPE_CHECKING:
    from graphlint.scope import Scope
    from graphlint.trail import Query

FOLDER = ".graphlint_cache"
#: What of the configuration says nothing about the analysis itself.
_OF_REPORTS = ("select", "ignore", "extend-select", "per-file-ignores", "severity", "require-reason", "baseline")


class Work(Protocol):
    """Analyses what concerns some files, with what is known already, which it brings up to date."""

    def __call__(self, wanted: Sequence[str], known: Known, since: Since | None) -> Raw: ...


@dataclass(slots=True)
class Rests:
    """`files` maps every path that was read, and those that would have been if they existed (None)."""

    written: int
    files: dict[str, Signature | None]
    folders: dict[str, Signature | None]

    def changed(self) -> set[str]:
        return {name for name, signature in self.files.items() if not unchanged(name, signature, self.written)}

    def changed_folders(self) -> set[str]:
        folders = self.folders.items()
        return {name for name, signature in folders if not unchanged(name, signature, self.written, folder=True)}


@dataclass(slots=True)
class Entry:
    rests: Rests
    raw: Raw


@dataclass(slots=True)
class Memory:
    """`project` are the files that belonged to the project."""

    rests: Rests
    project: list[str]
    plans: dict[str, FilePlan] = field(default_factory=dict)
    runs: list[Run] = field(default_factory=list)
    parsed: dict[str, str] = field(default_factory=dict)
    captures: tuple[str, ...] | None = None


def cached(scope: Scope, config: Config, registry: Registry, work: Work) -> Raw:
    """The raw findings of a scope: from the cache if nothing changed, else from `work`, and remembered.

    An entry about the whole scope answers for any of its files; where there is none, a question about some files is
    not made to pay for all.
    """
    folder = Path(config.root) / FOLDER
    targets = sorted(scope.targets)
    key = sealed.user_key()
    if key is None or folder.is_symlink():
        return work(targets, Known(), None)
    project = project_key(scope, config, registry)
    whole = _digest([project, *scope.files])
    paths = [folder / f"{whole}.json"]
    if len(targets) < len(scope.files):
        paths.append(folder / f"{_digest([whole, *targets])}.json")
    for path in paths:
        entry = sealed.read(path, Entry, key)
        if entry is not None and not entry.rests.changed() and not entry.rests.changed_folders():
            return entry.raw
    before = {path: stat_of(path) for path in scope.files}
    memory = sealed.read(folder / f"{project}.runs", Memory, key)
    known, since = (Known(), None) if memory is None else _recalled(memory, scope)
    raw = work(targets, known, since)
    if all(stat_of(name) == stat for name, stat in before.items()):
        # Otherwise a file changed while it was analysed, and what was read is not known.
        remember(folder / f"{project}.runs", paths[-1], scope, raw, known, memory.rests if memory else None, key)
    return raw


def recalled(
    scope: Scope, config: Config, registry: Registry, edited: Collection[str]
) -> tuple[Known, Since] | tuple[None, None]:
    """What the command line left and still holds, for who has the project's files open.

    edited: files that are not read as they are on disk.
    """
    folder, key = Path(config.root) / FOLDER, sealed.user_key()
    if key is None or folder.is_symlink():
        return None, None
    memory = sealed.read(folder / f"{project_key(scope, config, registry)}.runs", Memory, key)
    return (None, None) if memory is None else _recalled(memory, scope, edited)


def _recalled(memory: Memory, scope: Scope, edited: Collection[str] = ()) -> tuple[Known, Since]:
    from graphlint.noting import Matcher

    now, then = set(scope.files), set(memory.project)
    matcher = Matcher(scope.overlay)

    def matches(query: Query, path: str) -> bool:
        return path in now and matcher(query, path)

    since = Since(memory.rests.changed() | (now ^ then) | set(edited), memory.rests.changed_folders(), matches)
    known = Known(memory.plans, {run.root: run for run in memory.runs}, memory.parsed, memory.captures)
    return still_known(known, since), since


def remember(
    memory_path: Path, entry_path: Path, scope: Scope, raw: Raw, known: Known, old: Rests | None, key: bytes
) -> None:
    """Stores what an analysis said, and what is known now."""
    files: Mapping[str, Signature | None] = old.files if old else {}
    folders: Mapping[str, Signature | None] = old.folders if old else {}
    trails = [run.trail for run in known.runs.values()]
    trails += [t for plan in known.plans.values() for site in plan.sites for t in (site.trail, site.ran_trail)]
    opened = dict.fromkeys((*scope.files, *known.parsed, *(path for trail in trails for path in trail.opened)))
    listed = dict.fromkeys(path for trail in trails for path in trail.listed)
    written = time.time_ns()
    rests = Rests(
        written,
        {path: renewed(path, files) for path in opened},
        {path: renewed(path, folders, folder=True) for path in listed},
    )
    memory = Memory(rests, list(scope.files), known.plans, list(known.runs.values()), known.parsed, known.captures)
    sealed.write(memory_path, memory, key)
    here = dict.fromkeys((*scope.files, *raw.trail.opened))
    said = Rests(
        written,
        {path: rests.files.get(path) or renewed(path, files) for path in here},
        {path: rests.folders.get(path) or renewed(path, folders, folder=True) for path in raw.trail.listed},
    )
    sealed.write(entry_path, Entry(said, raw), key)


def project_key(scope: Scope, config: Config, registry: Registry) -> str:
    """What a memory is for: which project, which configuration, which rules, which version. Not which files."""
    about = as_toml(config)
    for name in _OF_REPORTS:
        about.pop(name)
    parts = [
        __version__,
        sys.version,
        json.dumps(about, sort_keys=True, default=str),
        str(config.root),
        *map(str, scope.roots),
        *(f"{path}:{stat_of(str(path))}" for path in scope.site_packages),
        *engine_content(registry),
    ]
    return _digest(parts)


def _digest(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=20).hexdigest()


def engine_content(registry: Registry) -> Iterator[str]:
    """What the rules and the engine are: a changed check must not be answered from an old entry."""
    folders = dict.fromkeys(str(rule.folder) for rule in registry.rules if rule.folder is not None)
    for folder in folders:
        with contextlib.suppress(OSError):
            yield from _stats(Path(folder).glob("*.py"))
    package = Path(__file__).parent
    for part in ("", "lower", "program", "interp", "knowledge"):
        with contextlib.suppress(OSError):
            yield from _stats(p for p in (package / part).iterdir() if p.suffix in (".py", ".json"))


def _stats(paths: Iterable[Path]) -> Iterator[str]:
    for path in sorted(paths):
        stat = path.stat()
        yield f"{path}:{stat.st_mtime_ns}:{stat.st_size}"
