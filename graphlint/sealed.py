"""Files in `.graphlint_cache/` that only this user's graphlint can have written.

Glossary:
    seal    a keyed digest over the content. The key lies in the user's own cache folder, so a file that came with a
            repository (hostile, or from another machine) or was cut short is not believed.

Nothing in such a file can run: it is JSON, checked against types when it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import tempfile
import zlib
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_SEAL = 32
_KEEP = 24


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


def seal(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_SEAL).digest()


def read(path: Path, kind: type[T], key: bytes) -> T | None:
    """What was stored, None if there is nothing, or it is not what this user's graphlint wrote."""
    import msgspec

    try:
        data = path.read_bytes()
    except OSError:
        return None
    body = data[_SEAL:]
    if not hmac.compare_digest(data[:_SEAL], seal(body, key)):
        return None
    try:
        return msgspec.json.decode(zlib.decompress(body), type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, zlib.error):
        return None


def write(path: Path, content: object, key: bytes) -> None:
    """Stores `content` atomically; a folder that cannot be written is no reason to complain."""
    import msgspec

    folder = path.parent
    try:
        body = zlib.compress(msgspec.json.encode(content), 1)
        prepare(folder)
        handle, temporary = tempfile.mkstemp(suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(seal(body, key) + body)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise
        prune(folder, path.suffix)
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


def prune(folder: Path, suffix: str) -> None:
    """Keeps the newest files of a kind."""
    entries = []
    for path in folder.glob(f"*{suffix}"):
        with contextlib.suppress(OSError):
            entries.append((path.stat().st_mtime_ns, path))
    for _, path in sorted(entries, reverse=True)[_KEEP:]:
        with contextlib.suppress(OSError):
            path.unlink()
