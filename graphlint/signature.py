"""What tells that a file or a folder is still as it was.

Glossary:
    signature  of a file: size, time and inode, and the digest of its content; of a folder: time and inode, and a digest
               of the names in it that imports could mean. Only where the times differ, or are too young to be trusted,
               is the content or the listing read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

#: What changed this shortly before it was signed may have changed again within the clock's resolution.
YOUNG_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Signature:
    size: int
    time: int
    inode: int
    digest: str


def stat_of(path: str) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def sign(path: str) -> Signature | None:
    """The signature of a file as it is now, None if it cannot be read."""
    stat = stat_of(path)
    content = _content(path)
    if stat is None or content is None or stat != stat_of(path):
        return None
    return Signature(*stat, content)


def sign_folder(path: str) -> Signature | None:
    """The signature of a folder as it is now, None if it cannot be listed."""
    stat = stat_of(path)
    names = _names(path)
    if stat is None or names is None or stat != stat_of(path):
        return None
    return Signature(*stat, names)


def renewed(path: str, known: Mapping[str, Signature | None], *, folder: bool = False) -> Signature | None:
    """A signature of now; one that is known and whose times still hold needs no second look at the content."""
    old = known.get(path)
    if old is not None and _same_stat(stat_of(path), old):
        return old
    return sign_folder(path) if folder else sign(path)


def unchanged(path: str, signature: Signature | None, written: int, *, folder: bool = False) -> bool:
    """Whether a file or folder is what it was when it was signed, at some time before `written`."""
    stat = stat_of(path)
    if signature is None:
        # It could not be read then; whether it can now is for the analysis to say.
        return stat is None
    if stat is None:
        return False
    if _same_stat(stat, signature) and signature.time < written - YOUNG_NS:
        return True
    if folder:
        return _names(path) == signature.digest
    return stat[0] == signature.size and _content(path) == signature.digest


def _same_stat(stat: tuple[int, int, int] | None, signature: Signature) -> bool:
    return stat == (signature.size, signature.time, signature.inode)


def _content(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.blake2b(file.read(), digest_size=16).hexdigest()
    except OSError:
        return None


def _names(path: str) -> str | None:
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir():
                    folders.append(entry.name)
                elif entry.name.endswith(".py"):
                    files.append(entry.name)
    except OSError:
        return None
    # A folder without Python files is a package if it has any folders.
    package = bool(files or folders)
    importable = [name for name in folders if name.isidentifier() and name != "__pycache__"]
    text = "\0".join([*sorted(files), "", *sorted(importable), str(package)])
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
