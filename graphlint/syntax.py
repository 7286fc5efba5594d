"""Which files of a scope do not parse, found without building a tree of those that do.

Most files hold no capture and are never read further, but a broken one must be named all the same. Python's own
parser tells at a third of the cost of `ast.parse`, and a file that some Python has compiled since it was last changed
needs no second look: its `.pyc` says so.

Run as a script, it reads paths from standard input and prints those that do not parse, so that another core can do it.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import warnings
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from symtable import symtable

_MAX_BYTES = 5_000_000
#: Fewer files are looked at sooner than a process starts.
_FEW = 300
#: Each file's syntax tree is made and thrown away as a whole: glibc would give the memory back to the system and ask
#: for it again for every file, a tenth of the time. Other systems do not know these names.
_KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_MAX_": "0", "MALLOC_TOP_PAD_": "16000000"}
_TAG_FOLDER = "__pycache__"
#: Flags, time and size of a `.pyc` that is checked by its source's time.
_HEADER = struct.Struct("<4xIII")


def suspects(paths: Iterable[str]) -> Iterator[str]:
    """Those of `paths` that this Python cannot parse, or that cannot be read: to be read with care, and named."""
    compiled: dict[str, dict[str, list[str]]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for path in paths:
            if path.endswith(".py") and not was_compiled(path, compiled) and not parses(path):
                yield path


class Search:
    """Looks for suspects, in a process of its own where that pays, while the caller does something else."""

    def __init__(self, paths: Iterable[str], jobs: int) -> None:
        compiled: dict[str, dict[str, list[str]]] = {}
        self.paths = [p for p in paths if p.endswith(".py") and not was_compiled(p, compiled)]
        self.process: subprocess.Popen[bytes] | None = None
        if jobs > 1 and len(self.paths) > _FEW and sys.executable:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-I", "-S", __file__],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # Ctrl-C reaches it, too
                    env={**os.environ, **_KEEPS_MEMORY},
                )
                assert self.process.stdin is not None
                self.process.stdin.write(b"\0".join(os.fsencode(path) for path in self.paths))
                self.process.stdin.close()
            except OSError:
                self.process = None

    def found(self, known: Container[str] = ()) -> list[str]:
        """The suspects; files in `known` are fine."""
        if self.process is not None:
            assert self.process.stdout is not None
            data = self.process.stdout.read()
            if self.process.wait() == 0:
                return [path for path in map(os.fsdecode, data.split(b"\0")) if path and path not in known]
        return list(suspects(path for path in self.paths if path not in known))


def was_compiled(path: str, compiled: dict[str, dict[str, list[str]]]) -> bool:
    """Whether a `.pyc` of exactly this file lies beside it. `compiled` remembers listings."""
    folder, name = os.path.split(path)
    if folder not in compiled:
        listing: dict[str, list[str]] = {}
        try:
            for found in os.listdir(os.path.join(folder, _TAG_FOLDER)):
                listing.setdefault(found.partition(".")[0] + ".py", []).append(found)
        except OSError:
            pass
        compiled[folder] = listing
    for found in compiled[folder].get(name, ()):
        if not found.endswith(".pyc"):
            continue
        try:
            stat = os.stat(path)
            with open(os.path.join(folder, _TAG_FOLDER, found), "rb") as file:
                flags, time, size = _HEADER.unpack(file.read(16))
        except (OSError, struct.error):
            continue
        if flags == 0 and time == int(stat.st_mtime) & 0xFFFFFFFF and size == stat.st_size & 0xFFFFFFFF:
            return True
    return False


def parses(path: str) -> bool:
    """Whether this Python can parse the file; False also where it cannot be read."""
    try:
        data = Path(path).read_bytes()
        if len(data) > _MAX_BYTES or b"\0" in data:
            return False
        symtable(data, path, "exec")  # type: ignore[arg-type]
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, LookupError):
        return False
    return True


if __name__ == "__main__":
    asked = [os.fsdecode(path) for path in sys.stdin.buffer.read().split(b"\0") if path]
    sys.stdout.buffer.write(b"\0".join(os.fsencode(path) for path in suspects(asked)))
