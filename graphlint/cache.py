"""Remembers what an analysis said, for as long as nothing that it read has changed.

Glossary:
    entry      one file in `.graphlint_cache/`: the raw findings of a scope, and a signature of each file that was read.
    signature  size, time and inode of a file, and the digest of its content. Only where the first three differ, or are
               too young to be trusted, is the content read.
    seal       a keyed digest over the entry. The key lies in the user's own cache folder, so an entry that came with a
               repository (hostile, or from another machine) or was cut short is not believed.

Nothing in an entry can run: it is JSON, checked against types when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphlint import __version__
from graphlint.config import Config, as_toml
from graphlint.engine import Raw
from graphlint.finding import FileError
from graphlint.registry import Registry

if TYPE_CHECKING:
    from graphlint.scope import Scope

FOLDER = ".graphlint_cache"
_KEEP = 24
#: A file changed this shortly before the entry was written may have changed again within the clock's resolution.
_YOUNG_NS = 2_000_000_000
_SEAL = 32


@dataclass(frozen=True, slots=True)
class Signature:
    size: int
    time: int
    inode: int
    digest: str


@dataclass(frozen=True, slots=True)
class Entry:
    """`files` maps every path that was read, and those that would have been if they existed (None)."""

    written: int
    files: dict[str, Signature | None]
    raw: Raw


def cached(scope: Scope, config: Config, registry: Registry, work: Callable[[Sequence[str]], Raw]) -> Raw:
    """The raw findings of a scope: from the cache if nothing changed, else from `work`, and remembered.

    work: analyses what concerns the files that it is given. An entry about the whole scope answers for any of its
    files; where there is none, a question about some files is not made to pay for all.
    """
    folder = Path(config.root) / FOLDER
    targets = sorted(scope.targets)
    key = user_key()
    if key is None or folder.is_symlink():
        return work(targets)
    whole = scope_key(scope, config, registry)
    paths = [folder / f"{whole}.json"]
    if len(targets) < len(scope.files):
        about = "\0".join([whole, *targets]).encode("utf-8", "surrogateescape")
        paths.append(folder / f"{hashlib.blake2b(about, digest_size=20).hexdigest()}.json")
    for path in paths:
        entry = read(path, key)
        if entry is None:
            continue
        changed = [name for name, signature in entry.files.items() if not unchanged(name, signature, entry.written)]
        if not changed:
            return entry.raw
        if (patched := without_effect(entry.raw, changed, scope)) is not None:
            remember(folder, path, scope, patched, key, entry.files)
            return patched
    before = {path: stat_of(path) for path in scope.files}
    raw = work(targets)
    if all(stat_of(name) == stat for name, stat in before.items()):
        # Otherwise a file changed while it was analysed, and what was read is not known.
        remember(folder, paths[-1], scope, raw, key, {})
    return raw


def remember(
    folder: Path, path: Path, scope: Scope, raw: Raw, key: bytes, known: Mapping[str, Signature | None]
) -> None:
    """Stores an entry. Signatures in `known` that still hold need no second look at the content."""
    written = time.time_ns()
    files: dict[str, Signature | None] = {}
    for name in dict.fromkeys((*scope.files, *raw.trail.opened)):
        signature = known.get(name)
        files[name] = signature if signature and _same_stat(stat_of(name), signature) else sign(name)
    write(folder, path, Entry(written, files, raw), key)


def without_effect(raw: Raw, changed: Iterable[str], scope: Scope) -> Raw | None:
    """What the analysis says now, if files with a new content cannot change more than whether they parse."""
    from graphlint.noting import irrelevant
    from graphlint.syntax import suspects

    changed = set(changed)
    # What is read of a notebook is its joined cells, whose trail is not the file's.
    if changed & set(scope.notebooks) or not irrelevant(changed, raw.trail):
        return None
    errors = [error for error in raw.errors if error.path not in changed]
    broken = sorted(suspects(sorted(changed)))
    if broken:
        program = scope.program()
        for name in broken:
            program.module(Path(name))
        errors += [FileError(str(name), " ".join(text.split())) for name, text in sorted(program.errors.items())]
    return replace(raw, errors=tuple(errors))


def scope_key(scope: Scope, config: Config, registry: Registry) -> str:
    """What an entry is for: which files, which configuration, which rules, which version. Not their content."""
    import json

    about = as_toml(config)
    for irrelevant in (
        "select",
        "ignore",
        "extend-select",
        "per-file-ignores",
        "severity",
        "require-reason",
        "baseline",
    ):
        about.pop(irrelevant)
    parts = [
        __version__,
        sys.version,
        json.dumps(about, sort_keys=True, default=str),
        *scope.files,
        "roots",
        *map(str, scope.roots),
        *(f"{path}:{stat_of(str(path))}" for path in scope.site_packages),
        *engine_content(registry),
    ]
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


# ---------------------------------------------------------------------------------------------------- signatures


def stat_of(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def sign(path: str) -> Signature | None:
    """The signature of a file as it is now, None if it cannot be read."""
    stat = stat_of(path)
    content = content_digest(path)
    if stat is None or content is None or stat != stat_of(path):
        return None
    return Signature(*stat, content)


def content_digest(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return None


def _same_stat(stat: tuple[int, int, int] | None, signature: Signature | None) -> bool:
    if stat is None or signature is None:
        return stat is None and signature is None
    return stat == (signature.size, signature.time, signature.inode)


def unchanged(path: str, signature: Signature | None, written: int) -> bool:
    stat = stat_of(path)
    if signature is None:
        # It could not be read then; whether it can now is for the analysis to say.
        return stat is None
    if stat is None:
        return False
    if _same_stat(stat, signature) and signature.time < written - _YOUNG_NS:
        return True
    return stat[0] == signature.size and content_digest(path) == signature.digest


# -------------------------------------------------------------------------------------------------------- storage


def user_key() -> bytes | None:
    """The user's own key, made on first use; None where no private folder can be had."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(base, "graphlint", "key")
    try:
        data = path.read_bytes()
        if len(data) == _SEAL:
            return data
    except OSError:
        pass
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(os.urandom(_SEAL))
        if path.exists():
            os.replace(temporary, path)
        else:
            # Of two first runs at once, both must end up with the same key.
            with contextlib.suppress(FileExistsError):
                os.link(temporary, path)
            os.unlink(temporary)
        data = path.read_bytes()
    except OSError:
        return None
    return data if len(data) == _SEAL else None


def read(path: Path, key: bytes) -> Entry | None:
    """The entry, None if there is none, or it is not what this user's graphlint wrote."""
    import msgspec

    try:
        data = path.read_bytes()
    except OSError:
        return None
    seal, body = data[:_SEAL], data[_SEAL:]
    if not hmac.compare_digest(seal, _seal(body, key)):
        return None
    try:
        return msgspec.json.decode(body, type=Entry)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _seal(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_SEAL).digest()


def write(folder: Path, path: Path, entry: Entry, key: bytes) -> None:
    """Stores an entry atomically; a folder that cannot be written is no reason to complain."""
    import msgspec

    try:
        body = msgspec.json.encode(entry)
        prepare(folder)
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_seal(body, key) + body)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        prune(folder)
    except (OSError, ValueError):
        # ValueError: a path that UTF-8 cannot hold.
        return


def prepare(folder: Path) -> None:
    """Makes the folder, which git and backups leave alone.

    Raises:
        OSError: it cannot be made.
    """
    if folder.is_dir():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    (folder / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55\n", encoding="utf-8")


def prune(folder: Path) -> None:
    """Keeps the newest entries."""
    entries = []
    for path in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            entries.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(entries, reverse=True)[_KEEP:]:
        with contextlib.suppress(OSError):
            path.unlink()
