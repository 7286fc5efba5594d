"""Which files a folder holds for us, as git and the user's excludes have it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pathspec

DEFAULT_EXCLUDE = (
    ".git", ".hg", ".svn", ".tox", ".nox", ".eggs", ".venv", "venv", "env", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", "__pycache__", "__pypackages__", "node_modules", "site-packages", "build", "dist",
)  # fmt: skip
SUFFIXES = (".py", ".ipynb")
_MARKERS = ("pyproject.toml", "graphlint.toml", ".git", "setup.py", "setup.cfg")
#: Never source code of the project, whatever the excludes say.
_NEVER = frozenset({".git", "__pycache__", "site-packages"})


@dataclass(slots=True)
class _Ignore:
    """One set of ignore lines and the folder that they are relative to."""

    base: str
    spec: pathspec.GitIgnoreSpec

    def says(self, path: str, folder: bool) -> bool | None:
        relative = os.path.relpath(path, self.base).replace(os.sep, "/")
        return self.spec.check_file(relative + "/" if folder else relative).include


def discover(
    paths: Sequence[Path],
    exclude: Sequence[str] = DEFAULT_EXCLUDE,
    respect_gitignore: bool = True,
    suffixes: tuple[str, ...] = SUFFIXES,
) -> tuple[list[Path], list[tuple[Path, str]]]:
    """Files under `paths`, absolute, sorted, each once; and (path, message) for what is not there or not readable.

    A file that is named is taken whatever it is called; a folder that is named is walked even where it is ignored.
    `exclude` holds names and globs as in a .gitignore, relative to the project's root.
    """
    files: set[str] = set()
    errors: dict[str, str] = {}
    for path in paths:
        given = os.path.abspath(path)
        try:
            is_folder = os.path.isdir(given)
            exists = is_folder or os.path.exists(given)
        except ValueError:
            exists = is_folder = False
        if not exists:
            errors[given] = "no such file or directory"
        elif not is_folder:
            files.add(given)
        else:
            files.update(_walk(given, exclude, respect_gitignore, suffixes, errors))
    return [Path(f) for f in sorted(files)], [(Path(p), message) for p, message in sorted(errors.items())]


def project_root(path: Path) -> Path:
    """The nearest folder, from `path` upwards, that a project's files mark; `path`'s own folder if there is none."""
    path = Path(os.path.abspath(path))
    folder = path if path.is_dir() else path.parent
    for candidate in (folder, *folder.parents):
        if any((candidate / marker).exists() for marker in _MARKERS):
            return candidate
    return folder


def _walk(
    top: str, exclude: Sequence[str], respect_gitignore: bool, suffixes: tuple[str, ...], errors: dict[str, str]
) -> Iterator[str]:
    excluded = _Ignore(str(project_root(Path(top))), pathspec.GitIgnoreSpec.from_lines(exclude))
    if top != excluded.base and excluded.says(top, True):
        excluded.base = top
    outer = tuple(_above(top)) if respect_gitignore else ()
    if _ignored(top, True, outer):
        outer = ()
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[str, tuple[_Ignore, ...]]] = [(top, outer)]
    while stack:
        folder, ignores = stack.pop()
        try:
            status = os.stat(folder)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            errors[folder] = f"cannot be read: {error.strerror or error}"
            continue
        if respect_gitignore and any(entry.name == ".gitignore" for entry in entries):
            ignores = (*ignores, *_read(os.path.join(folder, ".gitignore"), folder))
        for entry in entries:
            try:
                is_folder = entry.is_dir()
            except OSError:
                continue
            if is_folder:
                if entry.name in _NEVER or os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                    continue
            elif not entry.name.endswith(suffixes) or _blocks(entry):
                continue
            if excluded.says(entry.path, is_folder) or _ignored(entry.path, is_folder, ignores):
                continue
            if is_folder:
                stack.append((entry.path, ignores))
            else:
                yield entry.path


def _blocks(entry: os.DirEntry[str]) -> bool:
    """Whether it is neither file nor link: a named pipe would be waited for without end."""
    return not (entry.is_file() or entry.is_symlink())


def _ignored(path: str, folder: bool, ignores: Sequence[_Ignore]) -> bool:
    """The innermost ignore file that mentions the path decides."""
    for ignore in reversed(ignores):
        said = ignore.says(path, folder)
        if said is not None:
            return said
    return False


def _above(top: str) -> Iterator[_Ignore]:
    """Ignore files of the repository that hold for `top` from above it, the outermost first."""
    chain = [Path(top), *Path(top).parents]
    repository = next((i for i, folder in enumerate(chain) if (folder / ".git").exists()), None)
    if repository is None:
        return
    root = chain[repository]
    yield from _read(str(root / ".git" / "info" / "exclude"), str(root))
    for folder in reversed(chain[1 : repository + 1]):
        yield from _read(str(folder / ".gitignore"), str(folder))


def _read(path: str, base: str) -> Iterator[_Ignore]:
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines:
        try:
            yield _Ignore(base, pathspec.GitIgnoreSpec.from_lines(lines))
        except ValueError:  # a pattern that git does not accept either
            return
