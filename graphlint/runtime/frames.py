"""Where Python stands: the lines of the user's own code on the call stack.

A frame is the user's if its file is neither torch's, nor the standard library's, nor graphlint's, nor in site-packages.
"""

from __future__ import annotations

import sys
import sysconfig
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

_HERE = str(Path(__file__).resolve().parent)
#: What lies outside these frames is graphlint's own start of the program.
_OUTERMOST = (str(Path(_HERE) / "target.py"), str(Path(_HERE) / "worker.py"))
_STDLIB = tuple({p for key in ("stdlib", "platstdlib") if (p := sysconfig.get_paths().get(key))})


class Site(NamedTuple):
    """A line of the user's code that was running."""

    path: str
    line: int
    function: str


@lru_cache(maxsize=4096)
def is_user(filename: str) -> bool:
    if filename.startswith("<") or not filename:
        return False
    if "site-packages" in filename or "dist-packages" in filename or filename.startswith(_STDLIB):
        return False
    return not filename.startswith(_HERE)


@lru_cache(maxsize=4096)
def is_own(filename: str) -> bool:
    """graphlint's own code."""
    return filename.startswith(_HERE)


@lru_cache(maxsize=4096)
def is_library(filename: str) -> bool:
    """Third-party code that is neither torch nor graphlint: model libraries."""
    parts = filename.replace("\\", "/")
    return (
        ("site-packages/" in parts or "dist-packages/" in parts)
        and "/torch/" not in parts
        and "/_pytest/" not in parts
        and "/pluggy/" not in parts
        and not filename.startswith(_HERE)
    )


def qualified(frame: FrameType) -> str:
    return str(getattr(frame.f_code, "co_qualname", frame.f_code.co_name))


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
    known = _KINDS[id(code)] = kind, str(getattr(code, "co_qualname", code.co_name)), code
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
        name = frame.f_code.co_filename.replace("\\", "/")
        if is_user(frame.f_code.co_filename):
            break
        if "/torch/" in name:
            found.append(f"{name.rsplit('/torch/', 1)[1]}:{frame.f_code.co_name}")
        frame = frame.f_back
    return tuple(found)
