"""Tables that code all over a project fills when it is imported: by decorators, calls and assignments at top level.

Glossary:
    table      a dictionary of a module, or what keeps one: `OPS = {}`, `OPS = Registry()`, `class Ops`.
    registrar  a function of the table's module that stores into it: other files use it as a decorator, or call it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from graphlint.interp import effort
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue
from graphlint.lower import tree
from graphlint.program.module import Module
from graphlint.value import Instance, Mapping, Unknown, Value, join

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

#: So many files that register something are looked into, the nearest ones, and so many entries taken from each. What
#: is left out is unknown under every other key.
FILES = 24
ENTRIES = 32
_HOOK = re.compile(r"\bdef\s+__init_subclass__\s*\(\s*(\w+)")
_STORES = re.compile(r"\]\s*=(?!=)|\.(?:setdefault|update|append|add)\(")


def fill(m: Machine, module: Module, name: str, value: Value) -> None:
    """Runs what fills the table `value`, which `module` calls `name`: as if every file had been imported."""
    if isinstance(value, Mapping) and not value.items and value.rest is None:
        _run_decorated(m, module)
    if not module.in_project or None not in module.origins(name):
        return
    if isinstance(value, ClassValue):
        _run_subclass_hook(m, value)
    registrars = _registrars(m, module, name, value)
    if registrars is None:
        return
    words = [name, *(r.node.name for r in registrars if isinstance(r.node, tree.Function))]
    near = _near(m, module, words)
    if len(near) > FILES:
        _leave_open(m, value)
    for other in (module, *_loaded(m, near[:FILES])):
        for definition in other.definitions():
            if "." not in definition.qualname and any(
                _registers(m, other, d, words, registrars, value) for d in definition.decorators
            ):
                with m.quiet():
                    m.names.global_(m, other, definition.name)
        _run_statements(m, other, words, registrars, value)


def _run_decorated(m: Machine, module: Module) -> None:
    """Evaluates the decorated definitions of the table's own module, which may fill it."""
    decorated = [d for d in module.definitions() if d.decorators and "." not in d.qualname]
    for definition in decorated[:ENTRIES]:
        with m.quiet():
            m.names.global_(m, module, definition.name)


def _run_subclass_hook(m: Machine, cls: ClassValue) -> None:
    """Tells a class of those that derive from it, as `__init_subclass__` asks for."""
    own = cls.module.definition(f"{cls.node.qualname}.__init_subclass__")
    if own is None or not tells_of_class(_source(cls.module, own)):
        return
    hook = m.names.load(m, cls).attrs.get("__init_subclass__")
    if not isinstance(hook, FunctionValue):
        return
    for derived in m.names.subclasses(m, cls, ENTRIES):
        with m.quiet():
            given = {a.keyword: m.eval_in(derived.scope, a.value) for a in derived.node.head.keywords if a.keyword}
            call = partial(m.call, BoundMethod(receiver=derived, function=hook), (), given, derived.node.span, cls.name)
            otherwise: Value = Unknown(cls.name)
            effort.rationed(m, effort.DECORATOR, call, otherwise)


def tells_of_class(hook: str) -> bool:
    """Whether a hook does more with the class than to check it: hands it on, keeps it, or sets something.

    One that warns or raises need not be run, and the classes need not be looked for.
    """
    header = _HOOK.search(hook)
    if header is None:
        return True
    cls, body = header.group(1), hook[header.end() :]
    body = re.sub(rf"\b(?:hasattr|getattr|issubclass|isinstance|super)\s*\(\s*{cls}\b", "", body)
    kept = rf"\bglobal\b|\b{cls}\b(?!\.)|\b{cls}\.\w+\s*(?:\(|\[[^\]\n]*\]\s*=(?!=)|=(?!=))"
    return _STORES.search(body) is not None or re.search(kept, body) is not None


def _source(module: Module, node: tree.Function | tree.Class) -> str:
    start, end = module.source.offsets(*node.lines)
    return module.source.text[start:end]


def _registrars(m: Machine, module: Module, name: str, value: Value) -> list[FunctionValue] | None:
    """The functions by which others register; None if nobody can, as far as the text of the module tells."""
    if isinstance(value, Mapping):
        stores = re.compile(rf"\b{re.escape(name)}(?:\[[^\]\n]*\]\s*=(?!=)|\.(?:setdefault|update)\()")
        starts = module.source.line_starts
        lines = [bisect_right(starts, match.start()) for match in stores.finditer(module.source.text)]
        around = [d for line in lines for d in module.enclosing_chain(line) if "." not in d.qualname]
        outer = dict.fromkeys(d.name for d in around if isinstance(d, tree.Function))
        found = [m.names.global_(m, module, function) for function in outer]
        return [f for f in found if isinstance(f, FunctionValue)]
    cls = value.cls if isinstance(value, Instance) else value
    if not isinstance(cls, ClassValue) or not cls.module.in_project:
        return None
    # The text is asked first: most classes that a file imports hold no table, and need not be loaded to know it.
    text, (start, end) = cls.module.source.text, cls.module.source.offsets(*cls.node.lines)
    if not _STORES.search(text, start, end) or (cls is value and text.find("classmethod", start, end) < 0):
        return None
    if m.names.is_module_class(m, cls):
        return None
    return [] if any(isinstance(v, Mapping) for v in _held(m, value).values()) else None


def _near(m: Machine, module: Module, words: list[str]) -> list[Path]:
    """The files that begin a line with one of `words` and name the table's module, or lie beside it; nearest first."""
    program, folder = m.names.program, module.path.parent
    paths = dict.fromkeys(p for word in words for p in program.filling(word) if p != module.path)
    if any(p.parent != folder for p in paths):
        named = set(program.mentions(module.name.rpartition(".")[2]))
        paths = {p: None for p in paths if p in named or p.parent == folder}
    return sorted(paths, key=lambda p: (-_shared(p, module.path), str(p)))


def _shared(one: Path, other: Path) -> int:
    """How many folders two paths share from the top."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one.parts, other.parts, strict=False)))


def _loaded(m: Machine, paths: list[Path]) -> Iterator[Module]:
    for path in paths:
        module = m.names.program.module(path)
        if module is not None:
            yield module


def _leave_open(m: Machine, table: Value) -> None:
    """Says of a table that not all of what fills it was read: what lies under another key is not known."""
    for held in (table, *_held(m, table).values()):
        if isinstance(held, Mapping):
            held.rest = Unknown() if held.rest is None else join(held.rest, Unknown())


def _held(m: Machine, table: Value) -> dict[str, Value]:
    """The attributes of what keeps a table."""
    if isinstance(table, ClassValue):
        return m.names.load(m, table).attrs
    return table.attrs if isinstance(table, Instance) else {}


def _registers(
    m: Machine, other: Module, node: tree.Expr, words: list[str], registrars: list[FunctionValue], table: Value
) -> bool:
    """True if a decorator, or the callee of a call, is a registrar of the table, or one of its own methods."""
    while isinstance(node, tree.Call):
        node = node.func
    if not _names(node) & set(words):
        return False
    with m.quiet(), m.quiet_reading():
        made = m.eval_in(m.names.module_scope(other), node)
    if isinstance(made, BoundMethod):
        return made.receiver is table
    return isinstance(made, FunctionValue) and any(made.node is r.node for r in registrars)


def _names(node: tree.Expr) -> set[str]:
    """The names in `a.b.c`."""
    found: set[str] = set()
    while isinstance(node, tree.Attribute):
        found.add(node.name)
        node = node.value
    return found | ({node.id} if isinstance(node, tree.Name) else set())


def _run_statements(m: Machine, other: Module, words: list[str], registrars: list[FunctionValue], table: Value) -> None:
    """Runs calls of a registrar and stores into the table that stand at a file's top level."""
    scope = m.names.module_scope(other)

    def fills(statement: tree.Stmt) -> bool:
        match statement:
            case tree.ExprStmt(value=tree.Call() as call):
                return _registers(m, other, call, words, registrars, table) or _is_table(m, other, call.func, table)
            case tree.Assign(targets=targets):
                stored = [t for t in targets if isinstance(t, tree.Subscript)]
                return bool(stored) and all(_is_table(m, other, t, table) for t in stored)
            case tree.For(body=body, orelse=()):
                return all(map(fills, body))
        return False

    for statement in other.naming(words)[:ENTRIES]:
        if fills(statement):
            with m.quiet():
                m.run_in(scope, (statement,))


def _is_table(m: Machine, other: Module, node: tree.Expr, table: Value) -> bool:
    """True for `TABLE[...]` and `TABLE.update`."""
    if not isinstance(node, (tree.Subscript, tree.Attribute)):
        return False
    with m.quiet(), m.quiet_reading():
        return m.eval_in(m.names.module_scope(other), node.value) is table
