"""Where Python stands: the lines of the user's own code on the call stack.

A frame is the user's if its file is neither torch's, nor the standard library's, nor graphlint's, nor an installed
package's: one in site-packages, or in another folder of `sys.path` that pip installed it to (`pip install --target`).
"""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import torch

_HERE = str(Path(__file__).resolve().parent)
#: What lies outside these frames is graphlint's own start of the program.
_OUTERMOST = (str(Path(_HERE) / "target.py"), str(Path(_HERE) / "worker.py"))
_TORCH = str(Path(torch.__file__).parent) + os.sep
_STDLIB = tuple({p for key in ("stdlib", "platstdlib") if (p := sysconfig.get_paths().get(key))})


class Site(NamedTuple):
    """A line of the user's code that was running."""

    path: str
    line: int
    function: str


@lru_cache(maxsize=256)
def _packages(folder: str) -> frozenset[str]:
    """What pip has put into a folder: the first parts of the paths that its records name."""
    names: set[str] = set()
    for record in Path(folder).glob("*.dist-info/RECORD"):
        try:
            text = record.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        names.update(line.replace("\\", "/").partition("/")[0].partition(",")[0] for line in text.splitlines())
    return frozenset(names)


def _is_installed(filename: str) -> bool:
    if "site-packages" in filename or "dist-packages" in filename:
        return True
    for folder in sys.path:
        start = folder.rstrip("/\\")
        if start and filename.startswith(start) and filename[len(start) : len(start) + 1] in ("/", "\\"):
            name = filename[len(start) + 1 :].replace("\\", "/").partition("/")[0]
            if name in _packages(folder):
                return True
    return False


@lru_cache(maxsize=4096)
def is_user(filename: str) -> bool:
    if filename.startswith("<") or not filename or filename.startswith(_STDLIB) or _is_installed(filename):
        return False
    return not filename.startswith(_HERE)


@lru_cache(maxsize=4096)
def torch_file(filename: str) -> str:
    """The path of a file inside the package `torch`, "" if it is none of torch's: any folder may have that name."""
    return filename[len(_TORCH) :].replace("\\", "/") if filename.startswith(_TORCH) else ""


@lru_cache(maxsize=4096)
def is_own(filename: str) -> bool:
    """graphlint's own code."""
    return filename.startswith(_HERE)


@lru_cache(maxsize=4096)
def is_library(filename: str) -> bool:
    """Third-party code that is neither torch nor graphlint: model libraries."""
    parts = filename.replace("\\", "/")
    return (
        _is_installed(filename)
        and not torch_file(filename)
        and "/_pytest/" not in parts
        and "/pluggy/" not in parts
        and not filename.startswith(_HERE)
    )


def named(code: CodeType) -> str:
    return str(getattr(code, "co_qualname", code.co_name))


def qualified(frame: FrameType) -> str:
    return named(frame.f_code)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code, or of a model library if there is none."""
    frame: FrameType | None = sys._getframe(1)
    library = None
    while frame is not None:
        name = frame.f_code.co_filename
        if is_user(name):
            return frame
        if name in _OUTERMOST:
            break
        if library is None and is_library(name):
            library = frame
        frame = frame.f_back
    return library


_SKIPPED, _SITE, _OUTSIDE = range(3)
#: By the code's id, for its hash goes through all that it holds; the code is kept, so that its id stays its own.
_KINDS: dict[int, tuple[int, str, CodeType]] = {}


def _kind(code: CodeType) -> tuple[int, str, CodeType]:
    name = code.co_filename
    kind = _OUTSIDE if name in _OUTERMOST else _SITE if is_user(name) or is_library(name) else _SKIPPED
    known = _KINDS[id(code)] = kind, named(code), code
    return known


def user_sites(limit: int = 24) -> tuple[Site, ...]:
    """The user's frames and those of model libraries, innermost first."""
    sites: list[Site] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        kind, name, _ = _KINDS.get(id(code)) or _kind(code)
        if kind == _SITE:
            sites.append(Site(code.co_filename, frame.f_lineno, name))
            if len(sites) >= limit:
                break
        elif kind == _OUTSIDE:
            break
        frame = frame.f_back
    return tuple(sites)


def in_user_code(sites: tuple[Site, ...]) -> Site | None:
    """The innermost site of the user's own code, or else the innermost of all."""
    for site in sites:
        if is_user(site.path):
            return site
    return sites[0] if sites else None


def torch_files(limit: int = 12) -> tuple[str, ...]:
    """torch's own Python functions between the user's line and here, as `file:function`, outermost last."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < limit:
        if is_user(frame.f_code.co_filename):
            break
        name = torch_file(frame.f_code.co_filename)
        if name:
            found.append(f"{name}:{frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)
