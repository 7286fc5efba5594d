"""Where the packages that a project imports are installed, told by folder layout: no interpreter is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def find_site_packages(python: str | None, start: Path, environ: Mapping[str, str] | None = None) -> Path | None:
    """The `site-packages` folder to read.

    `python` is an interpreter or an environment's folder; without it `VIRTUAL_ENV` holds, then the nearest `.venv`
    from `start` upwards. None if none of them has one.
    """
    environ = os.environ if environ is None else environ
    if python:
        return _of_interpreter(Path(python).expanduser())
    active = environ.get("VIRTUAL_ENV")
    if active and (found := _of_environment(Path(active))) is not None:
        return found
    start = Path(os.path.abspath(start))
    for folder in (start, *start.parents):
        if (folder / ".venv").is_dir() and (found := _of_environment(folder / ".venv")) is not None:
            return found
    return None


def _of_interpreter(path: Path) -> Path | None:
    if path.name == "site-packages" and path.is_dir():
        return path
    if path.is_dir():
        return _of_environment(path) or _of_environment(path.parent)  # `bin` or `Scripts` was named
    if not path.parent.name:
        return None
    # A virtual environment's python is a link to another one: its own folder comes first.
    for candidate in (path, Path(os.path.realpath(path))):
        if candidate.exists() and (found := _of_environment(candidate.parent.parent)) is not None:
            return found
        if candidate.exists() and (found := _of_environment(candidate.parent)) is not None:
            return found  # Windows: python.exe lies in the installation's folder
    return None


def _of_environment(folder: Path) -> Path | None:
    windows = folder / "Lib" / "site-packages"
    if windows.is_dir():
        return windows
    found: list[tuple[tuple[int, ...], Path]] = []
    for lib in ("lib", "lib64"):
        for candidate in (folder / lib).glob("python3*/site-packages"):
            digits = candidate.parent.name.removeprefix("python").rstrip("t").split(".")
            if candidate.is_dir() and all(d.isdigit() for d in digits):
                found.append((tuple(int(d) for d in digits), candidate))
        if found:
            break
    return max(found)[1] if found else None
