"""Where a name comes from: through imports, re-exports, star imports, submodules and tables of lazy imports."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphlint.lower import tree
from graphlint.program.module import Module

if TYPE_CHECKING:
    from graphlint.program.program import Program

Target: TypeAlias = "tuple[Module, str] | str | None"

_LAZY = ("__getattr__", "_import_structure", "_LazyModule", "lazy_loader", "LazyModule")
#: `"sub.module": [names]`, `table["sub.module"] = [names]`, `.extend([names])`, `.append(name)`.
_TABLE = re.compile(r"""["']([\w.]+)["']\s*\]?\s*(?::|\+?=|\.extend\(|\.append\()\s*[\[({]*([^\])}]*)""")
_ALL = re.compile(
    rb"^__all__[ \t]*(?::[^=\n]+)?=[ \t]*[\[(]((?:\s|,|\"[^\"\n]*\"|'[^'\n]*'|#[^\n]*)*)[\])]", re.MULTILINE
)

_STAR = re.compile(rb"^[ \t]*from[ \t]+([.\w]+)[ \t]+import[ \t]+\*", re.MULTILINE)


def import_target(program: Program, module: Module, name: str, seen: set[tuple[Module, str]] | None = None) -> Target:
    """See Program.import_target."""
    seen = set() if seen is None else seen
    if (module, name) in seen:
        return None
    seen.add((module, name))
    for statement in module.origins(name):
        if statement is None:
            return module, name
        if (found := _follow(program, module, statement, name, seen)) is not None:
            return found
    if module.is_package:
        submodule = program.find(f"{module.name}.{name}", module)
        if submodule is not None and submodule is not module:
            return submodule, ""
    if (found := _star(program, module, name, seen)) is not None:
        return found
    if module.is_package and any(word in module.source.text for word in _LAZY):
        found = _lazy(program, module, name, seen)
        if found is not None:
            return found
    return _external_star(program, module, name)


def _follow(program: Program, module: Module, statement: tree.Stmt, name: str, seen: set[tuple[Module, str]]) -> Target:
    """What an import statement binds to `name`."""
    if isinstance(statement, tree.Import):
        for dotted, alias in statement.names:
            if (alias or dotted.partition(".")[0]) == name:
                wanted = dotted if alias else name
                found = program.find(wanted, module)
                return wanted if found is None else (found, "")
        return None
    if not isinstance(statement, tree.ImportFrom):
        return None
    base = program.resolve_relative(module, statement.module, statement.level)
    for original, alias in statement.names:
        if (alias or original) != name:
            continue
        source = program.find(base, module)
        if source is module and module.is_package and statement.level and not statement.module:
            # `from . import name` in the package itself means the submodule.
            submodule = program.find(f"{base}.{original}", module)
            return None if submodule is None else (submodule, "")
        if source is not None:
            return import_target(program, source, original, seen)
        submodule = program.find(f"{base}.{original}", module)
        if submodule is not None:
            return submodule, ""
        if program.locate(base, module) is not None:
            return None  # it is there and cannot be parsed
        return None if statement.level else f"{base}.{original}"
    return None


def _star(program: Program, module: Module, name: str, seen: set[tuple[Module, str]]) -> Target:
    """Through `from x import *`, the last first. Files that do not hold the name are not parsed."""
    for star in reversed(module.star_imports()):
        base = program.resolve_relative(module, star.module, star.level)
        path = program.locate(base, module)
        if path is None or path == str(module.path) or not path.endswith(".py"):
            continue
        if not _may_bind(program, path, name, {str(module.path)}):
            continue
        source = program.find(base, module)
        if source is None:
            continue
        exported = source.dunder_all()
        if name not in exported if exported is not None else name.startswith("_"):
            continue
        if name not in source.names() and not source.star_imports() and exported is None:
            continue
        if (found := import_target(program, source, name, seen)) is not None:
            return found
    return None


def _may_bind(program: Program, path: str, name: str, seen: set[str]) -> bool:
    """False if neither the text of this file nor that of the files it star-imports can bind `name`."""
    if path in seen:
        return False
    seen.add(path)
    word = name.encode("utf-8")
    exported, stars = _outline(program, path)
    if exported is not None and word not in exported:
        return False
    try:
        data = program.disk.read(path)
    except OSError:
        return False
    if word in data and _binding(name).search(data):
        return True
    for star in stars:
        inner = _relative_file(program, path, star)
        if inner is None or _may_bind(program, inner, name, seen):
            return True
    return False


def _outline(program: Program, path: str) -> tuple[bytes | None, tuple[str, ...]]:
    """The text of a file's one `__all__`, if it is a literal, and the modules that the file star-imports."""
    if path not in program.outlines:
        try:
            data = program.disk.read(path)
        except OSError:
            data = b""
        exports = _ALL.search(data) if data.count(b"__all__") == 1 else None
        stars = _STAR.findall(data) if b"import *" in data else []
        program.outlines[path] = (
            exports.group(1) if exports is not None else None,
            tuple([star.decode("utf-8", "replace") for star in stars]),
        )
    return program.outlines[path]


def _relative_file(program: Program, path: str, module: str) -> str | None:
    """The file that `from <module> import` means in the file `path`, for relative imports of what is there."""
    parts = module.lstrip(".").split(".")
    level = len(module) - len(module.lstrip("."))
    if level == 0 or not parts[0]:
        return None
    folder = os.path.dirname(path)
    for _ in range(level - 1):
        folder = os.path.dirname(folder)
    folder = os.path.join(folder, *parts[:-1])
    if program.disk.has_file(os.path.join(folder, parts[-1]), "__init__.py"):
        return os.path.join(folder, parts[-1], "__init__.py")
    return os.path.join(folder, parts[-1] + ".py") if program.disk.has_file(folder, parts[-1] + ".py") else None


@lru_cache(maxsize=256)
def _binding(name: str) -> re.Pattern[bytes]:
    """Text that a file must hold to bind `name` at top level: a definition, an assignment or an import."""
    word = re.escape(name.encode("utf-8"))
    return re.compile(
        rb"(?:\bdef|\bclass|\bas|\btype)[ \t]+%b\b|^[ \t]*%b[ \t]*(?:[:=,)]|$)|\bimport\b[^\n]*\b%b\b"
        rb"|,[ \t]*%b[ \t]*(?:[,)\r\n]|=[^=])" % ((word,) * 4),
        re.MULTILINE,
    )


def _external_star(program: Program, module: Module, name: str) -> Target:
    """`from torch import *` is the only place left that can bind the name, if there is just one like it."""
    if hasattr(builtins, name) or name.startswith("_") or name in module.names():
        return None
    outside = {s.module for s in module.star_imports() if not s.level and program.locate(s.module, module) is None}
    return f"{outside.pop()}.{name}" if len(outside) == 1 else None


# ------------------------------------------------------------------------------------------------ lazy imports


def _lazy(program: Program, module: Module, name: str, seen: set[tuple[Module, str]]) -> Target:
    """A package whose `__getattr__` or lazy module imports on demand: its tables first, then the files below it."""
    for dotted in _tables(module.source.text, name):
        for wanted in (f"{module.name}.{dotted.lstrip('.')}", dotted):
            if dotted.startswith(".") and wanted == dotted:
                continue
            source = program.find(wanted, module)
            if source is None or source is module:
                continue
            if (found := import_target(program, source, name, seen)) is not None:
                return found
    definition = re.compile(
        rb"^(?:(?:async[ \t]+)?def|class)[ \t]+%b\b|^%b[ \t]*[:=]" % ((name.encode("utf-8"),) * 2), re.M
    )
    for path in _files_below(program, str(module.path.parent)):
        try:
            data = program.disk.read(path)
        except OSError:
            continue
        if name.encode("utf-8") in data and definition.search(data):
            source = program.module(Path(path))
            if source is not None and source is not module and name in source.names():
                return import_target(program, source, name, seen) or (source, name)
    return None


def _tables(text: str, name: str) -> Iterator[str]:
    """Submodules that tables in `text` name for `name`."""
    quoted = re.compile(rf"""["']{re.escape(name)}["']""")
    if not quoted.search(text):
        return
    for match in re.finditer(rf"""["']{re.escape(name)}["']\s*:\s*[\[(]*\s*["']([\w.]+)["']""", text):
        yield match.group(1)
    for match in _TABLE.finditer(text):
        if quoted.search(match.group(2)):
            yield match.group(1)


def _files_below(program: Program, folder: str) -> Iterator[str]:
    """Python files of a package, those of the folder itself before those deeper down."""
    level = [folder]
    while level:
        deeper: list[str] = []
        for current in level:
            files, folders = program.disk.listing(current)
            yield from (os.path.join(current, file) for file in sorted(files) if file.endswith(".py"))
            deeper += [
                os.path.join(current, sub) for sub in sorted(folders) if sub.isidentifier() and sub != "__pycache__"
            ]
        level = deeper
