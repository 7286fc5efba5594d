"""The key gets what the capture froze."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Enter
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location

_TITLE = "put it into the key"


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if not problem.message.startswith("the graph is stored under a key without"):
        return None
    name = problem.message.split("`")[1]
    entered = [f for f in region.life if isinstance(f, Enter) and f.name == problem.function]
    if not name.isidentifier() or not entered or name not in entered[-1].given:
        return None
    for at, node in edits.inner(problem.at):
        targets = [t.target for t in node.targets] if isinstance(node, libcst.Assign) else []
        for target in targets:
            if isinstance(target, libcst.Subscript) and len(target.slice) == 1:
                key = edits.code(target.slice[0])
                return _named(at, key, name) or _direct(at, edits.code(target.value), key, name)
    return None


def _named(at: Location, key: str, name: str) -> Fix | None:
    """`key = rows`, used for every lookup, becomes `key = (rows, name)`."""
    import libcst

    if not key.isidentifier():
        return None
    found: list[Edit | None] = []
    for line in edits.function_lines(at):
        for place, node in edits.inner(line):
            if not isinstance(node, libcst.Assign) or place != line:
                continue
            if any(edits.code(t.target) == key for t in node.targets):
                found.append(edits.rewrite(place, f"{key} = ({edits.code(node.value)}, {name})"))
    return edits.fix(_TITLE, *found, safe=False) if len(found) == 1 else None


def _direct(at: Location, table: str, key: str, name: str) -> Fix | None:
    """`table[rows]`, `table.get(rows)` and `rows in table` of one function; elsewhere the table must not be used."""
    import re

    lines = edits.function_lines(at)
    spelled, known = re.escape(table), re.escape(key)
    everywhere = edits.mentions(at.path, rf"(?<![\w.]){spelled}(?:\[|\.get\(|\.pop\()|\bin {spelled}\b")
    if any(place not in lines for place in everywhere):
        return None
    found: list[Edit | None] = []
    for place in everywhere:
        old = edits.text(place)
        new = re.sub(rf"(?<![\w.]){spelled}\[{known}\]", f"{table}[{key}, {name}]", old)
        new = re.sub(rf"(?<![\w.])({spelled}\.(?:get|pop)\(){known}([,)])", rf"\g<1>({key}, {name})\2", new)
        new = re.sub(rf"(?<![\w.]){known}( (?:not )?in {spelled})\b", rf"({key}, {name})\1", new)
        if new == old:
            return None
        found.append(edits.spelled(place, new))
    return edits.fix(_TITLE, *found, safe=False)
