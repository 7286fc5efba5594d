"""The files that a script imports from beside it, and what these import: those that a trace checks with it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

#: More files are not checked with a script.
MOST = 200


def imported(script: Path, root: Path) -> list[Path]:
    """The script first. root: where absolute imports start. Names alone tell where one leads: nothing is imported."""
    found: dict[Path, None] = {script: None}
    queue = [script]
    while queue:
        path = queue.pop(0)
        for file in _leads_to(path, root):
            if file not in found and len(found) < MOST:
                found[file] = None
                queue.append(file)
    return list(found)


def _leads_to(path: Path, root: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(root, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = path.parents[node.level - 1] if 0 < node.level <= len(path.parents) else root
            for alias in node.names:
                yield from _files(base, f"{node.module}.{alias.name}" if node.module else alias.name)


def _files(base: Path, name: str) -> Iterator[Path]:
    """The packages on the way to a module, and the module; a name that is none of these leads nowhere."""
    place = base
    for part in name.split("."):
        place = place / part
        for file in (place / "__init__.py", place.with_name(f"{part}.py")):
            if file.is_file():
                yield file
