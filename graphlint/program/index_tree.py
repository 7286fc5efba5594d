"""The index of a file whose syntax the running Python does not know yet, from LibCST's lowered tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint.lower import blocks, lower_whole, tree
from graphlint.program.index import Entry, Index, Item
from graphlint.source import Source


def build(source: Source) -> Index:
    """
    Raises:
        SourceError: LibCST cannot parse it either.
    """
    entries: list[Entry] = []
    items = tuple([_item(statement, None, entries) for statement in lower_whole(source)])
    entries.sort(key=lambda entry: entry.lines[0])
    return Index(items, tuple(entries), _exported(items))


def _item(node: tree.Stmt, parent: Entry | None, entries: list[Entry], fallback: bool = False) -> Item:
    span = node.span
    if isinstance(node, (tree.Function, tree.Class)):
        made = _entry(node, parent, entries)
        return Item("def", *node.lines, span.line, span.column, (node.name,), made, fallback=fallback, statement=node)
    item = Item("other", span.line, span.end_line, span.line, span.column, fallback=fallback, statement=node)
    if isinstance(node, tree.Import):
        item.kind = "import"
        item.binds = tuple([alias or name.partition(".")[0] for name, alias in node.names])
    elif isinstance(node, tree.ImportFrom):
        star = node.names[0][0] == "*"
        item.kind = "star" if star else "import"
        item.binds = () if star else tuple([alias or name for name, alias in node.names])
    elif isinstance(node, tree.Assign):
        item.kind, item.binds = "assign", tuple(_targets(node.targets))
    elif isinstance(node, (tree.AnnAssign, tree.AugAssign)):
        item.kind, item.binds = "assign", tuple(_targets([node.target]))
    else:
        if isinstance(node, tree.For):
            item.binds = tuple(_targets([node.target]))
        elif isinstance(node, tree.With):
            item.binds = tuple(_targets([w.target for w in node.items if w.target is not None]))
        inner = blocks(node)
        if inner:
            item.kind = "compound"
            # The body comes first; the `else` and `finally` of a `try` run as surely as its body.
            sure = {0, len(inner) - 2, len(inner) - 1} if isinstance(node, tree.Try) else {0}
            item.children = tuple(
                [
                    _item(s, parent, entries, fallback or number not in sure or isinstance(node, tree.Match))
                    for number, block in enumerate(inner)
                    for s in block
                ]
            )
    return item


def _entry(node: tree.Function | tree.Class, parent: Entry | None, entries: list[Entry]) -> Entry:
    function = isinstance(node, tree.Function)
    entry = Entry(
        node.name,
        node.qualname,
        not function,
        node.lines,
        node.span,
        node.lines,
        False,
        parent,
        is_async=isinstance(node, tree.Function) and node.is_async,
        is_generator=isinstance(node, tree.Function) and node.is_generator,
        stub=node,
    )
    entries.append(entry)
    items = tuple([_item(statement, entry, entries) for statement in node.body])
    entry.items = () if function else items
    return entry


def _targets(nodes: Iterable[tree.Expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, tree.Name):
            yield node.id
        elif isinstance(node, (tree.TupleExpr, tree.ListExpr)):
            yield from _targets(node.items)
        elif isinstance(node, tree.Starred):
            yield from _targets([node.value])


def _exported(items: Iterable[Item]) -> tuple[str, ...] | None:
    for item in items:
        if "__all__" in item.binds and isinstance(item.statement, (tree.Assign, tree.AnnAssign)):
            value = item.statement.value
            if isinstance(value, (tree.ListExpr, tree.TupleExpr)):
                texts = [e.value for e in value.items if isinstance(e, tree.Constant) and isinstance(e.value, str)]
                return tuple(texts) if len(texts) == len(value.items) else None
    return None
