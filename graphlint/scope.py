"""Which files are asked about, and which may be read to answer.

The targets are what the user named; the scope is the project around them: the folder of the configuration file, or
else the nearest one above with a `pyproject.toml` or `.git`. Without either, a file's scope is its folder, not what
lies below it: a script in a home folder must not set off a walk through all of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from graphlint.config import Config
from graphlint.finding import FileError
from graphlint.source import Source, SourceError

if TYPE_CHECKING:
    from graphlint.notebooks import Notebook
    from graphlint.noting import NotingProgram

_MARKERS = ("pyproject.toml", ".git", "setup.py", "setup.cfg", ".hg")
SUFFIXES = (".py", ".ipynb")


@dataclass(slots=True)
class Scope:
    """Absolute paths as text. `files` are the project's, targets included; `roots` are where imports start."""

    targets: frozenset[str]
    files: tuple[str, ...]
    errors: tuple[FileError, ...]
    roots: tuple[Path, ...]
    site_packages: tuple[Path, ...]
    overlay: dict[Path, str] = field(default_factory=dict)
    """Texts that stand for files: unsaved buffers, and the joined cells of notebooks."""
    notebooks: dict[str, Notebook] = field(default_factory=dict)
    _owned: frozenset[str] | None = None

    def program(self) -> NotingProgram:
        from graphlint.noting import NotingProgram

        return NotingProgram([Path(f) for f in self.files], list(self.roots), list(self.site_packages), self.overlay)

    def outside(self, path: str) -> bool:
        """Whether `path` belongs to an installed package: the user cannot put a comment into it."""
        return not self.owns(path) and any(_inside(path, str(root)) for root in self.site_packages)

    def owns(self, path: str) -> bool:
        """Whether `path` is a file of the project."""
        if self._owned is None:
            self._owned = frozenset(self.files)
        return path in self._owned

    def digest(self, path: str) -> str | None:
        """Of the text that stands in `path` now, None if it cannot be read or is an overlay's."""
        from graphlint.fix import digest

        if (text := self.overlay.get(Path(path))) is not None:
            return digest(text)
        try:
            return digest(Source.read(Path(path)).text)
        except SourceError:
            return None


def find_scope(paths: Sequence[Path], config: Config, overlay: Mapping[Path, str]) -> Scope:
    """Targets and scope of a run. Files that cannot be listed or read are errors, never exceptions."""
    from graphlint.program.discover import discover

    exclude = (*config.exclude, *config.extend_exclude)
    given = [Path(os.path.abspath(p)) for p in paths]
    found, errors = discover([g for g in given if g not in overlay], exclude, config.respect_gitignore)
    targets = dict.fromkeys(os.path.abspath(p) for p in found)
    for path in overlay:
        if any(path == g or (g.is_dir() and g in path.parents) for g in given):
            targets[str(path)] = None
    if config.force_exclude:
        targets = _forced(targets, given, config, exclude)
    bounds = _bounds(given, config)
    files = dict(targets)
    for folder, deep in bounds:
        if folder in given:
            continue
        if deep:
            more, _ = discover([folder], exclude, config.respect_gitignore)
            files.update(dict.fromkeys(os.path.abspath(p) for p in more))
        else:
            files.update(dict.fromkeys(sorted(str(p) for p in _flat(folder))))
    failed = [FileError(str(path), message) for path, message in errors]
    texts = dict(overlay)
    books: dict[str, Notebook] = {}
    for name in files:
        if name.endswith(".ipynb") and Path(name) not in overlay:
            book, error = _notebook(name)
            books[name], texts[Path(name)] = book, book.joined
            if error is not None and name in targets:
                failed.append(error)
    return Scope(
        frozenset(targets),
        tuple(sorted(files)),
        tuple(failed),
        tuple(_roots(given, bounds, config)),
        tuple(_site_packages(config, bounds)),
        texts,
        books,
    )


def _notebook(path: str) -> tuple[Notebook, FileError | None]:
    from graphlint.notebooks import Notebook, read

    try:
        return read(Path(path)), None
    except SourceError as error:
        return Notebook("", ()), FileError(path, str(error))


def _forced(
    targets: Mapping[str, None], given: Sequence[Path], config: Config, exclude: Sequence[str]
) -> dict[str, None]:
    """Targets named on the command line are dropped too if the configuration excludes them."""
    from graphlint.program.discover import discover

    kept = dict(targets)
    for path in given:
        if str(path) in kept and _inside(str(path), str(config.root)):
            listed, _ = discover([config.root], exclude, config.respect_gitignore)
            allowed = {os.path.abspath(p) for p in listed}
            return {t: None for t in kept if t in allowed or not _inside(t, str(config.root))}
    return kept


def _bounds(given: Sequence[Path], config: Config) -> list[tuple[Path, bool]]:
    """Folders of the scope, each with whether what lies below belongs to it."""
    found: dict[Path, bool] = {}
    for path in given:
        folder = path if path.is_dir() else path.parent
        if any(_inside(str(folder), str(done)) for done, deep in found.items() if deep):
            continue
        if config.file is not None and _inside(str(folder), str(config.root)):
            found[config.root] = True
        elif "site-packages" in folder.parts:
            found[folder] = path.is_dir() or found.get(folder, False)
        elif (root := marked_root(folder)) is not None:
            found[root] = True
        else:
            found[folder] = path.is_dir() or found.get(folder, False)
    return list(found.items())


def marked_root(folder: Path) -> Path | None:
    """The nearest folder from `folder` up that looks like a project's, None if there is none."""
    home = Path(os.path.expanduser("~"))
    for candidate in (folder, *folder.parents):
        if candidate == home and candidate != folder:
            # A stray marker in a home folder would make all of it one project.
            return None
        if any((candidate / marker).exists() for marker in _MARKERS):
            return candidate
    return None


def _roots(given: Sequence[Path], bounds: Sequence[tuple[Path, bool]], config: Config) -> list[Path]:
    """Where absolute imports start: the `src` roots of each project, and the top of the package of each argument that
    lies in none. What a project's file imports does not depend on whether it was named."""
    found: dict[Path, None] = {}
    for folder, _ in bounds:
        for src in config.src:
            root = Path(os.path.normpath(folder / src))
            if root.is_dir():
                found[root] = None
    for path in given:
        top = path if path.is_dir() else path.parent
        if any(deep and top != folder and _inside(str(top), str(folder)) for folder, deep in bounds):
            continue
        while (top / "__init__.py").is_file() and top.parent != top:
            top = top.parent
        found[top] = None
    return list(found)


def _site_packages(config: Config, bounds: Sequence[tuple[Path, bool]]) -> list[Path]:
    from graphlint.program.environment import find_site_packages

    python = str(config.resolve(config.python)) if config.python else None
    start = bounds[0][0] if bounds else config.root
    environ = dict(os.environ)
    if "PRE_COMMIT" in environ and os.path.realpath(environ.get("VIRTUAL_ENV", "")) == os.path.realpath(sys.prefix):
        # A hook's own environment is active then, which says nothing of the project's.
        del environ["VIRTUAL_ENV"]
    found = find_site_packages(python, start, environ)
    return [found] if found is not None else []


def missing_packages(config: Config) -> str | None:
    """One line if the configured interpreter or environment has no packages that could be read."""
    from graphlint.program.environment import find_site_packages

    if config.python is None or find_site_packages(str(config.resolve(config.python)), config.root, {}) is not None:
        return None
    return f"`python`: no installed packages found in {config.resolve(config.python)}"


def _flat(folder: Path) -> list[Path]:
    try:
        return [p for p in folder.iterdir() if p.suffix in SUFFIXES and p.is_file()]
    except OSError:
        return []


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def glob_matcher(globs: Sequence[str]) -> Callable[[str], bool]:
    """Whether a relative path with slashes is matched by one of the globs, which read as in a .gitignore."""
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(globs)
    return lambda path: spec.match_file(path)
