"""The project's files and the packages it imports: which file a dotted name means, which files mention a word."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphlint.knowledge.captures import CAPTURE_MARKERS, GRAPH_MARKERS, GRAPH_STEM
from graphlint.program.disk import Disk
from graphlint.program.imports import Target, import_target
from graphlint.program.module import Module
from graphlint.program.text import Joined, is_base, is_filled
from graphlint.source import Source, SourceError

#: Known by tables or not at all, never read.
UNREAD = frozenset(
    ("torch", "numpy", "triton", "packaging", "huggingface_hub", "safetensors", "tokenizers", "requests", "yaml")
)
#: Modules of the standard library that are loaded before any script runs: no file of a project can stand for them.
_LOADED = frozenset(sys.builtin_module_names) | {
    *("abc", "codecs", "encodings", "genericpath", "io", "linecache", "ntpath", "os", "posixpath", "site", "stat"),
}


class Program:
    """Modules by path and by dotted name. `errors` has one line for each file that could not be read or parsed.

    `files` are the project's, `roots` the folders that dotted names start from, besides the folder above each
    package and a script's own; `site_packages` is read where the project has no such name.
    """

    def __init__(
        self,
        files: Sequence[Path],
        roots: Sequence[Path],
        site_packages: Path | Sequence[Path] | None = None,
        overlay: Mapping[Path, str] | None = None,
    ) -> None:
        self.errors: dict[Path, str] = {}
        self.disk = Disk({os.path.abspath(path): text for path, text in (overlay or {}).items()})
        self.files: tuple[Path, ...] = tuple(Path(f) for f in sorted({os.path.abspath(f) for f in files}))
        self._files = frozenset(str(f) for f in self.files)
        self._roots = [os.path.abspath(root) for root in dict.fromkeys(roots)]
        sites = [site_packages] if isinstance(site_packages, (str, Path)) else list(site_packages or ())
        self._sites = [os.path.abspath(site) for site in sites]
        self._tops: dict[str, list[str]] | None = None
        self._modules: dict[str, Module | None] = {}
        self._namespaces: dict[str, Module] = {}
        self._located: dict[tuple[str, str], str | None] = {}
        self._targets: dict[tuple[str, str], Target] = {}
        self.outlines: dict[str, tuple[bytes | None, tuple[str, ...]]] = {}
        """What star imports need of a file, without parsing it."""
        self._joined: Joined | None = None

    # ---------------------------------------------------------------------------------------- modules

    def module(self, path: Path) -> Module | None:
        """The module in this file; None, with an entry in `errors`, if it cannot be read or parsed."""
        key = os.path.abspath(path)
        if key in self._modules:
            return self._modules[key]
        made: Module | None = None
        try:
            if key.endswith(".ipynb") and key not in self.disk.overlay:
                raise SourceError("a notebook is read through its cells only")
            name, is_package = self._name(key)
            made = Module(Path(key), name, self.source(Path(key)), self.is_project(key), is_package, self.errors)
        except SourceError as error:
            self.errors[Path(key)] = str(error)
        self._modules[key] = made
        return made

    def source(self, path: Path) -> Source:
        """The file's text, an editor's buffer before the file itself.

        Raises:
            SourceError: it cannot be read or decoded.
        """
        key = os.path.abspath(path)
        text = self.disk.overlay.get(key)
        if text is not None:
            return Source(Path(key), text.removeprefix("\ufeff"))
        try:
            return Source.from_bytes(Path(key), self.disk.read(key, keep=False))
        except OSError as error:
            raise SourceError(f"cannot be read: {error.strerror or error}") from None

    def loaded(self) -> Iterator[Module]:
        """Modules that were asked for so far."""
        return (module for module in self._modules.values() if module is not None)

    def is_project(self, path: str) -> bool:
        """False for what lies in an environment's packages."""
        return path in self._files or not any(path.startswith(site + os.sep) for site in self._sites)

    def _name(self, path: str) -> tuple[str, bool]:
        """Dotted name by the chain of `__init__.py`; without one, by the nearest root above."""
        folder, file = os.path.split(path)
        stem = file.rpartition(".")[0] or file
        is_package = stem == "__init__"
        parts = [] if is_package else [stem]
        chain = folder
        while self.disk.has_file(chain, "__init__.py") and os.path.dirname(chain) != chain:
            chain, name = os.path.split(chain)
            parts.insert(0, name)
        if chain == folder and not is_package:
            roots = [r for r in (*self._roots, *self._sites) if folder.startswith(r + os.sep)]
            between = os.path.relpath(folder, max(roots, key=len)).split(os.sep) if roots else []
            if all(part.isidentifier() for part in between):
                parts = [*between, *parts]
        return ".".join(parts), is_package

    # ---------------------------------------------------------------------------------------- dotted names

    def find(self, dotted: str, importer: Module | None = None) -> Module | None:
        """The module of this dotted name, as `importer` would import it.

        The project comes before installed packages, and of two modules of one name the one nearest to the importer.
        A folder without `__init__.py` is an empty package. None for the standard library, unless a file of the project
        stands before it, for torch, numpy, triton, extension modules, and what is not there.
        """
        where = self.locate(dotted, importer)
        if where is None:
            return None
        if where.endswith(".py"):
            return self.module(Path(where))
        module = self._namespaces.get(where)
        if module is None:
            module = Module(Path(where), dotted, Source(Path(where), ""), self.is_project(where), True)
            self._namespaces[where] = module
        return module

    def locate(self, dotted: str, importer: Module | None = None) -> str | None:
        """The path that `find` reads, without reading it."""
        top = dotted.partition(".")[0]
        if not dotted or top in UNREAD or top in _LOADED:
            return None
        start = "" if importer is None else str(importer.path if importer.path.suffix == "" else importer.path.parent)
        key = (dotted, start)
        if key not in self._located:
            parts = dotted.split(".")
            standard = top in sys.stdlib_module_names
            self._located[key] = self._beside_script(parts, start) if standard else self._locate(parts, start)
        return self._located[key]

    def _locate(self, parts: list[str], start: str) -> str | None:
        near = list(self._near_roots(start))
        installed = bool(start) and not self.is_project(start + os.sep)
        tops = sorted(self._package_roots().get(parts[0], ()), key=lambda root: -_common(root, start))
        roots = dict.fromkeys([*near, *tops])
        ordered = [*self._sites, *roots] if installed else [*roots, *self._sites]
        if start and self.disk.has_file(start, "__init__.py") and not installed:
            ordered.append(start)  # a script that lies in a package's folder
        for root in ordered:
            if (found := self._below(root, parts, regular=True)) is not None:
                return found
        for root in ordered:
            if (found := self._below(root, parts, regular=False)) is not None:
                return found
        return None

    def _beside_script(self, parts: list[str], start: str) -> str | None:
        """A file of the project that bears the name of a module of the standard library.

        Python finds it first if it lies where imports of the project start: in a root that holds the importer, or
        beside a script above it. In a package's own folder it is nothing but a submodule.
        """
        if not start or not self.is_project(start + os.sep):
            return None
        for root in dict.fromkeys(self._near_roots(start)):
            if not _within(start, root) or not self._has_named(root, parts[0]):
                continue
            if self.disk.has_file(root, "__init__.py") or not (root in self._roots or self._has_script(root)):
                continue
            found = self._below(root, parts, regular=True)
            if found is not None and self.is_project(found):
                return found
        return None

    def _has_named(self, root: str, name: str) -> bool:
        return self.disk.has_file(root, f"{name}.py") or self.disk.has_folder(root, name)

    def _has_script(self, folder: str) -> bool:
        """True if a file in `folder` says what it does when it is run."""
        for name in sorted(self.disk.listing(folder)[0]):
            if name.endswith(".py"):
                try:
                    if b"__main__" in self.disk.read(os.path.join(folder, name)):
                        return True
                except OSError:
                    continue
        return False

    def _near_roots(self, start: str) -> Iterator[str]:
        """Folders above the importer that can be on its path, the nearest first; then the other roots."""
        outer = [root for root in self._roots if _within(start, root)]
        if start:
            limit = min(outer, key=len) if outer else ""
            folder = start
            while True:
                plain = not self.disk.has_file(folder, "__init__.py")
                if plain:
                    yield folder
                above = os.path.dirname(folder)
                if folder == limit or above == folder or (plain and not limit):
                    break
                folder = above
        yield from sorted(self._roots, key=lambda root: -_common(root, start))

    def _package_roots(self) -> dict[str, list[str]]:
        """For each top-level package of the project, the folders that hold one of this name."""
        if self._tops is None:
            folders: set[str] = set()
            for file in self.files:
                if file.name == "__init__.py":
                    folders.add(str(file.parent))
            self._tops = {}
            for folder in sorted(folders):
                above, name = os.path.split(folder)
                if above not in folders:
                    self._tops.setdefault(name, []).append(above)
        return self._tops

    def _below(self, root: str, parts: list[str], regular: bool) -> str | None:
        """`root/a/b.py` or `root/a/b/__init__.py`; if not `regular`, packages need no `__init__.py`."""
        folder = root
        for part in parts[:-1]:
            if not self.disk.has_folder(folder, part):
                return None
            folder = os.path.join(folder, part)
            if regular and os.path.dirname(folder) == root and not self.disk.has_file(folder, "__init__.py"):
                return None
        last = parts[-1]
        if self.disk.has_folder(folder, last):
            inner = os.path.join(folder, last)
            if self.disk.has_file(inner, "__init__.py"):
                return os.path.join(inner, "__init__.py")
            python = any(name.endswith(".py") for name in self.disk.listing(inner)[0])
            if self.disk.has_file(folder, last + ".py"):
                return os.path.join(folder, last + ".py")
            if (python or self.disk.listing(inner)[1]) and (not regular or folder != root):
                return inner
            return None
        return os.path.join(folder, last + ".py") if self.disk.has_file(folder, last + ".py") else None

    def resolve_relative(self, importer: Module, module: str, level: int) -> str:
        """The absolute dotted name of `from <level dots><module>` in `importer`."""
        if level == 0:
            return module
        parts = importer.name.split(".") if importer.name else []
        drop = level - 1 if importer.is_package else level
        parts = parts[: max(0, len(parts) - drop)]
        return ".".join([*parts, module] if module else parts)

    def import_target(self, module: Module, name: str) -> Target:
        """Where the top-level `name` of `module` is defined.

        Follows imports, re-exports, star imports, submodules and tables of lazy imports: (module, name there), with
        name "" for a module itself; or the dotted name of something that is not read, such as "torch.cuda.graph";
        or None.
        """
        key = (str(module.path), name)
        if key not in self._targets:
            self._targets[key] = import_target(self, module, name)
        return self._targets[key]

    # ---------------------------------------------------------------------------------------- text search

    def mentions(self, token: str, limit: int | None = None) -> tuple[Path, ...]:
        """Project files that hold `token` as a whole word; with `limit`, no more than so many of them."""
        return self._joined_text().holding(token, limit)

    def subclassing(self, name: str, limit: int) -> tuple[Path, ...]:
        """Project files with a `class` line that names `name` among its bases, no more than `limit` of them."""
        return self._joined_text().holding(name, limit, is_base)

    def filling(self, name: str) -> tuple[Path, ...]:
        """Project files that may put something into the table `name`, or register something with `name`, as it says
        at the beginning of a line."""
        return self._joined_text().holding(name, None, is_filled)

    def capture_files(self, more: Iterable[str | bytes] = ()) -> tuple[Path, ...]:
        """Project files that hold any sign of a capture; `more` are texts that the user's configuration adds."""
        markers = (*CAPTURE_MARKERS, *[m.encode("utf-8") if isinstance(m, str) else m for m in more])
        return self._joined_text().marked(markers, GRAPH_STEM, GRAPH_MARKERS)

    def matches(self, kind: str, words: Sequence[str]) -> bool:
        """Whether one of the files is found by a search: `kind` and `words` as in a Query."""
        if kind == "mentions":
            return bool(self.mentions(words[0], 1))
        if kind == "subclassing":
            return bool(self.subclassing(words[0], 1))
        return bool(self.filling(words[0]) if kind == "filling" else self.capture_files(words))

    def _joined_text(self) -> Joined:
        if self._joined is None:
            self._joined = Joined.of(self._texts())
        return self._joined

    def holding(self, text: bytes) -> tuple[Path, ...]:
        """Project files that hold `text`, as a part of a word, too."""
        return self._joined_text().containing(text)

    def _texts(self) -> Iterator[tuple[Path, bytes]]:
        for file in self.files:
            try:
                yield file, self.disk.read(str(file), keep=False)
            except OSError:
                continue  # told when the file itself is asked for


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _common(one: str, other: str) -> int:
    """How many folders two paths share from the top."""
    count = 0
    for a, b in zip(one.split(os.sep), other.split(os.sep), strict=False):
        if a != b:
            break
        count += 1
    return count
