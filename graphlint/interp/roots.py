"""Where an analysis starts: the code that leads to a capture, as far out as it can be followed by name.

A capture site is a function (or a module's own code) whose text uses a capture interface. From each site the callers
are climbed by name: a function's by its name, a method's also by the class that is constructed. The outermost callers
are the roots. If a site is not captured from any root (a condition, the budget), the site's own function is run, its
parameters unknown.

Glossary:
    site     a function that may capture.
    root     what is run; "" is the module's own code.
    harness  what is run after a root: the other methods of the objects that captured, as their users would call them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from graphlint.interp.sites import SITE, Root, Site
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.program.program import Program
from graphlint.source import SourceError

#: More hits than this, and a name says nothing about who calls what.
TOO_COMMON = 12
MAX_CLIMB = 4
MAX_ROOTS = 4
MAX_CALLERS = 6
_COMMON_NAMES = frozenset({
    "forward", "__call__", "__init__", "run", "step", "main", "call", "get", "update", "apply", "build", "setup",
    "start", "load", "test", "train", "eval", "__enter__", "execute", "capture", "warmup", "replay", "reset", "close",
    "generate", "__new__", "wrapper", "decorator", "fn", "func", "inner", "process",
})  # fmt: skip
#: After a class's name: a class method that makes an object of it.
_MAKER = re.compile(r"\.(?:from_|create|build|load|make|new)\w*\(")
_CALLED = re.compile(r"\(")
#: A class that is an argument of a call, which may well make an object of it: what follows it, and what precedes it.
_HANDED = re.compile(r"[,)]")
_ARGUMENT = re.compile(
    r"(?<!\bclass )\b(?!(?:isinstance|issubclass|super|cast|import)\()\w+\((?:[^()]*[,=]\s*)?(?:\w+\.)*$"
)
_COMPILES = re.compile(r"\bcompile\s*\(")


def is_script(text: str) -> bool:
    """True for the text of a file that is made to be run."""
    return "__main__" in text


class Climber:
    """Finds the roots of sites; remembers what it has asked."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.hits: dict[str, tuple[Path, ...]] = {}
        self.passed: set[Root] = set()
        """Everything between a site and its roots, both included."""
        self.called_by: dict[Root, list[Root]] = {}
        self.found: dict[Root, list[Root]] = {}

    def roots(self, site: Site) -> list[Root]:
        """The outermost code that leads to `site`, best first, and the site itself last."""
        start = Root(site.module.path, site.function)
        if start not in self.found:
            self.found[start] = self._climb(start)
        if site.function:
            site.callers = self.callers(start)
        return self.found[start]

    def _climb(self, start: Root) -> list[Root]:
        self.passed.add(start)
        if not start.function:
            return [start]
        seen = {start}
        frontier, tops = [start], []
        for _ in range(MAX_CLIMB):
            following: list[Root] = []
            for root in frontier:
                known = self.callers(root)
                if not known and root is not start:
                    tops.append(root)
                callers = [c for c in known if c not in seen]
                seen.update(callers)
                following += callers
            frontier = [r for r in following if r.function]
            tops += [r for r in following if not r.function]
            # Far from the capture, tests and a wide front tell little for their price.
            frontier = sorted(frontier, key=lambda r: (is_test(r.path), r.path != start.path, str(r.path), r.function))[
                :6
            ]
            if not frontier or len(seen) > 24:
                break
        tops += frontier
        self.passed |= seen
        ordered = sorted(
            set(tops), key=lambda r: (r.function != "", r.path != start.path, is_test(r.path), str(r.path), r.function)
        )
        return [*ordered[:MAX_ROOTS], start]

    def callers(self, root: Root) -> list[Root]:
        """The definitions that call `root`, or make an object of its class, by name."""
        if root not in self.called_by:
            found = self._callers(root)
            module = self.program.module(root.path)
            body = module.definition(root.function) if module is not None else None
            if module is not None and isinstance(body, tree.Class):
                # A class that only holds a mode captures where its users compile, or what lies beside it.
                lines = module.source.lines[body.lines[0] - 1 : body.lines[1]]
                if not any(SITE.search(line) for line in lines) and not _COMPILES.search(module.source.text):
                    found = [c for c in found if _COMPILES.search(self.program.source(c.path).text)]
            self.called_by[root] = found
        return self.called_by[root]

    def _callers(self, root: Root) -> list[Root]:
        parts = root.function.split(".")
        module = self.program.module(root.path)
        names = [parts[-1]] if parts[-1] not in _COMMON_NAMES else []
        if len(parts) > 1:
            owner = module.definition(".".join(parts[:-1])) if module else None
            if isinstance(owner, tree.Class):
                made = [owner.name, *self._derived(owner.name)]
                if parts[-1] in ("__init__", "__call__", "forward", "__enter__") or not names:
                    names = made
                else:
                    names += made
            elif isinstance(owner, tree.Function):
                return [Root(root.path, owner.qualname)]
        elif not names:
            # A common name is only followed within its own file, and where it is imported from there.
            if module is None:
                return []
            own = [Root(root.path, self._outer(module, f)) for f in self._calling(module, parts[-1])]
            return [*own, *self._importers(module, parts[-1])]
        found = self._naming(root, names)
        if all(is_test(c.path) for c in found):
            classes = [n for n in names if n[:1].isupper()]
            for way in (_MAKER, _HANDED):
                if all(is_test(c.path) for c in found):
                    found += [c for c in self._naming(root, classes, way) if c not in found]
        return found

    def _naming(self, root: Root, names: list[str], way: re.Pattern[str] = _CALLED) -> list[Root]:
        """The definitions that use one of `names` in this way: that call it, if nothing else is said."""
        parts = root.function.split(".")
        found: dict[Root, None] = {}
        for name in names:
            for path in self._files(name, root.path):
                caller_module = self.program.module(path)
                if caller_module is None:
                    continue
                # Another file's own definition of that name is what its bare calls mean.
                other = path != root.path and name in parts and caller_module.definition(name) is not None
                for function in self._calling(caller_module, name, bare=not other, way=way):
                    caller = Root(path, self._outer(caller_module, function))
                    own_class = caller.function and root.function.startswith(f"{caller.function}.")
                    if caller == root or (
                        caller.path == root.path
                        and own_class
                        and isinstance(caller_module.definition(caller.function), tree.Class)
                    ):
                        continue
                    found.setdefault(caller)
        return list(found)

    def _importers(self, module: Module, name: str) -> list[Root]:
        """What calls `name` in files that take it from `module` by an import, whatever else goes by this name."""
        stem = module.path.parent.name if module.path.stem == "__init__" else module.path.stem
        taken = re.compile(
            rf"\bfrom\s+[\w.]*\b{re.escape(stem)}\s+import\s*(?:\([^)]*|[^\n]*)\b{re.escape(name)}\b"
            rf"|\b{re.escape(stem)}\.{re.escape(name)}\s*\("
        )
        found: dict[Root, None] = {}
        for path in self._files(stem, module.path):
            caller = self.program.module(path) if path != module.path else None
            if caller is not None and taken.search(caller.source.text) is not None:
                found.update(dict.fromkeys(Root(path, self._outer(caller, f)) for f in self._calling(caller, name)))
        return list(found)

    def _derived(self, name: str) -> list[str]:
        """Classes that name `name` as a base, by the text: an object of one of them is made under its own name."""
        found: dict[str, None] = {}
        for path in self.program.subclassing(name, MAX_CLIMB):
            module = self.program.module(path)
            text = module.source.text if module is not None else ""
            for match in re.finditer(rf"^[ \t]*class\s+(\w+)\s*\([^)\n]*\b{re.escape(name)}\b", text, re.M):
                found.setdefault(match.group(1))
        return list(found)[:MAX_CLIMB]

    def _calling(self, module: Module, name: str, bare: bool = True, way: re.Pattern[str] = _CALLED) -> list[str]:
        """Qualified names of the definitions that call `name` or decorate with it, by the text: no parse for a look.

        bare: calls that name no object or module before it count, too. way: what follows the name, if it is no call.
        """
        text = module.source.text
        functions: dict[str, None] = {}
        for match in re.finditer(rf"\b{re.escape(name)}\b", text):
            start = text.rfind("\n", 0, match.start()) + 1
            before = text[start : match.start()].strip()
            if before.endswith(("def", "class")) or before.startswith("#") or not (bare or before.endswith(".")):
                continue
            after = text[match.end() : match.end() + 80].lstrip(" \t")
            decorates = before.startswith("@") and (after[:1] in ("", "\r", "\n", "#"))
            if not way.match(after) and not (decorates and way is _CALLED):
                continue
            if way is _HANDED and _ARGUMENT.search(before) is None:
                continue
            line = text.count("\n", 0, match.start()) + 1
            inner = module.enclosing(line)
            functions.setdefault(inner.qualname if inner is not None else "")
        return list(functions)

    def _outer(self, module: Module, qualname: str) -> str:
        """The outermost function of a qualified name (a class's own body counts as the class)."""
        parts = qualname.split(".") if qualname else []
        for length in range(1, len(parts) + 1):
            name = ".".join(parts[:length])
            if isinstance(module.definition(name), tree.Function):
                return name
        return qualname if qualname and not isinstance(module.definition(qualname), tree.Class) else ""

    def _files(self, name: str, own: Path) -> tuple[Path, ...]:
        if name not in self.hits:
            self.hits[name] = self.program.mentions(name, TOO_COMMON + 1)
        found = self.hits[name]
        return found if len(found) <= TOO_COMMON else tuple(p for p in found if p == own)


def is_test(path: Path) -> bool:
    """True for tests and benchmarks, by their names."""
    return "test" in path.name or "tests" in path.parts or "benchmark" in str(path)


class Related:
    """Which captures can concern the files that were asked about: those in them, and those in or under code that
    imports them, by name and transitively."""

    def __init__(self, program: Program, targets: Collection[str]) -> None:
        self.program = program
        self.files = {str(t) for t in targets}
        self.all = len(self.files) >= len(program.files)
        if not self.all:
            self._grow()

    def _grow(self) -> None:
        """Adds whatever imports a file that is already in, and, for packages, what re-exports it."""
        queue = [Path(t) for t in self.files]
        while queue and not self.all:
            path = queue.pop()
            name = path.parent.name if path.stem == "__init__" else path.stem
            for importer in self.program.mentions(name):
                text = str(importer)
                if text not in self.files and self._imports(importer, name, path):
                    self.files.add(text)
                    queue.append(importer)
            self.all = len(self.files) > 400

    def _imports(self, importer: Path, name: str, path: Path) -> bool:
        try:
            source = self.program.source(importer).text
        except SourceError:
            return False  # named when it is itself asked about
        if not re.search(
            rf"^\s*(?:from\s+[\w.]*\b{re.escape(name)}\b|(?:from\s+[\w.]+\s+)?import\b.*\b{re.escape(name)}\b)|^\s+{re.escape(name)},?$",
            source,
            re.M,
        ):
            return False
        module = self.program.module(importer)
        if module is None:
            return False
        target = self.program.module(path)
        if target is None:
            return True
        near = importer.parent == path.parent
        return near or target.name.partition(".")[0] in source

    def concerns(self, site: Site, roots: list[Root]) -> bool:
        if self.all or str(site.module.path) in self.files:
            return True
        return any(str(r.path) in self.files for r in (*roots, *site.callers))
