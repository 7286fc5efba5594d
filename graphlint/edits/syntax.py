"""Expressions and statements, parsed where they stand."""

from __future__ import annotations

import tokenize
from typing import TYPE_CHECKING, TypeAlias

from graphlint.edits.reading import _slice, _text, _tokens, statement, text
from graphlint.source import Location, Span

if TYPE_CHECKING:
    import libcst

    Node: TypeAlias = libcst.CSTNode
    ExpressionNode: TypeAlias = libcst.BaseExpression
    CallNode: TypeAlias = libcst.Call
    ForNode: TypeAlias = libcst.For
    IfNode: TypeAlias = libcst.If
    SubscriptNode: TypeAlias = libcst.Subscript
    AssignNode: TypeAlias = libcst.Assign | libcst.AugAssign


def expression(at: Location) -> libcst.BaseExpression | None:
    """The expression that stands at exactly this location, parsed."""
    return parsed(text(at))


def parsed(code: str) -> libcst.BaseExpression | None:
    """An expression's syntax tree, None if the text is none."""
    import libcst

    if not code.strip():
        return None
    try:
        # In brackets, so that an expression over several lines is one.
        found = libcst.parse_expression(f"({code}\n)")
        return found
    except Exception:  # LibCST's parser error, RecursionError: this is no expression that can be edited.
        return None


def code(node: libcst.CSTNode) -> str:
    """The text of a node of `expression`."""
    import libcst

    return libcst.Module([]).code_for_node(node)


def is_primary(code: str) -> bool:
    """Whether `.name` may be put behind this text as it is: a name, call, attribute, index, or in brackets."""
    import libcst

    try:
        node = libcst.parse_expression(code)
    except Exception:
        return False
    kinds = (libcst.Name, libcst.Attribute, libcst.Call, libcst.Subscript, libcst.List, libcst.Dict, libcst.Set)
    return isinstance(node, kinds) or bool(getattr(node, "lpar", ()))


def inner(at: Location) -> list[tuple[Location, libcst.CSTNode]]:
    """Every node of the statement around `at` that lies inside `at` or holds all of it, with its location.

    Outermost first. Empty if the statement cannot be parsed alone.
    """
    import libcst
    from libcst.metadata import MetadataWrapper, PositionProvider

    found = statement(at)
    source = _text(at.path)
    if found is None or source is None:
        return []
    code = _slice(source.source, found.span)
    word = code.split(maxsplit=1)[0]
    ahead, behind = "", ""
    if code.startswith("@"):
        behind = "\ndef f(): pass"
    elif found.compound:
        ahead = (
            "if 0: pass\n"
            if word in ("elif", "else:")
            else "try: pass\n"
            if word.startswith(("except", "finally"))
            else ""
        )
        behind = " pass\n" if word != "try:" else " pass\nfinally: pass"
    try:
        module = libcst.parse_module(f"{ahead}{code}{behind}\n")
        positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    except Exception:
        return []
    shift = ahead.count("\n")
    nodes: list[tuple[Location, libcst.CSTNode]] = []
    for node, place in positions.items():
        start = _absolute(found.span, place.start.line - shift, place.start.column)
        end = _absolute(found.span, place.end.line - shift, place.end.column)
        span = Span(*start, *end)
        if _within(span, at.span) or _within(at.span, span):
            nodes.append((Location(at.path, span), node))
    return sorted(
        nodes,
        key=lambda pair: (pair[0].span.line, pair[0].span.column, -pair[0].span.end_line, -pair[0].span.end_column),
    )


def _absolute(span: Span, row: int, column: int) -> tuple[int, int]:
    return span.line + row - 1, column + (span.column if row == 1 else 1)


def _within(small: Span, large: Span) -> bool:
    return (large.line, large.column) <= (small.line, small.column) and (small.end_line, small.end_column) <= (
        large.end_line,
        large.end_column,
    )


def names(at: Location) -> list[tuple[Location, str]]:
    """Every name in whole lines that is read or bound: no attribute, no keyword of a call."""
    source = _text(at.path)
    if source is None:
        return []
    rows = source.source.lines[at.span.line - 1 : at.span.end_line]
    margin = len(rows[0]) - len(rows[0].lstrip()) if rows else 0
    found: list[tuple[Location, str]] = []
    tokens = _tokens("\n".join(rows))
    for before_, token, after_ in zip([None, *tokens[:-1]], tokens, [*tokens[1:], None], strict=True):
        if token.type != tokenize.NAME or (before_ is not None and before_.string == "."):
            continue
        if after_ is not None and after_.string == "=" and before_ is not None and before_.string in ("(", ","):
            continue
        line, column = at.span.line + token.start[0] - 1, token.start[1] + margin + 1
        place = Location(at.path, Span(line, column, line, column + len(token.string)))
        if text(place) != token.string:
            return []
        found.append((place, token.string))
    return found


def is_plain(at: Location) -> bool:
    """Whether a location holds a name, an attribute or an element: something that is only read."""
    import libcst

    try:
        node = libcst.parse_expression(text(at))
    except Exception:
        return False
    return isinstance(node, (libcst.Name, libcst.Attribute, libcst.Subscript))


def is_number(node: libcst.BaseExpression) -> bool:
    """Whether an expression is a literal number, with a sign or without, or True or False."""
    import libcst

    if isinstance(node, libcst.UnaryOperation) and isinstance(node.operator, (libcst.Minus, libcst.Plus)):
        node = node.expression
    return isinstance(node, (libcst.Integer, libcst.Float)) or code(node) in ("True", "False")


def is_name(text: str) -> bool:
    """Whether a text is a dotted name."""
    return all(part.isidentifier() for part in text.split("."))
