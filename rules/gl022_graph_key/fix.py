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
        made = next((n for p, n in edits.inner(line) if isinstance(n, libcst.Assign) and p == line), None)
        if made is not None and any(edits.code(t.target) == key for t in made.targets):
            old = made.value
            parts = edits.code(old)
            if isinstance(old, libcst.Tuple) and old.elements:
                parts = ", ".join(edits.code(e.with_changes(comma=libcst.MaybeSentinel.DEFAULT)) for e in old.elements)
            found.append(edits.rewrite(line, f"{key} = ({parts}, {name})"))
        elif not all(_looks_up(place) for place, word in edits.names(line) if word == key):
            return None  # it is more than a key
    return edits.fix(_TITLE, *found, safe=False) if len(found) == 1 else None


def _looks_up(place: Location) -> bool:
    """Whether a name stands where a key does: in brackets, in `get()`, before `in`."""
    import libcst

    around = [n for at, n in edits.inner(place) if at != place or isinstance(n, (libcst.Index, libcst.Arg))]
    for node in reversed(around):
        if isinstance(node, libcst.Index):
            return True
        if isinstance(node, libcst.Call) and isinstance(node.func, libcst.Attribute):
            return node.func.attr.value in ("get", "pop", "setdefault")
        if isinstance(node, libcst.Comparison):
            return any(isinstance(c.operator, (libcst.In, libcst.NotIn)) for c in node.comparisons)
        if isinstance(node, (libcst.BaseExpression, libcst.BaseSmallStatement)):
            return False
    return False


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
