"""What rules write fixes with: small text edits, each checked against the syntax, None where one cannot be made.

    fix = edits.fix("build it with `capturable=True`", edits.argument(optimizer.made, "capturable", "True"), safe=True)

Glossary:
    at         the location of an expression or statement, as facts carry it.
    statement  the logical line around a location, brackets included; for a compound statement its header.
    reader     where texts come from: the program that is analysed, so that unsaved buffers are seen.

Every function that makes an Edit gives None if the text is not what it expects; `fix` gives None if any edit is None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.edits.blocks import (
    Shared,
    behind_block,
    body,
    first_inside,
    function_lines,
    has_else,
    headers,
    lines,
    previous,
    rest_of_body,
    stands_after_block,
    stands_before,
)
from graphlint.edits.calls import argument, arguments, made_on, without_argument
from graphlint.edits.making import (
    after,
    after_block,
    append_to_block,
    before,
    delete,
    drop_block,
    fix,
    insert,
    method,
    move,
    move_behind,
    replace,
    rewrite,
    rewrite_block,
    spelled,
    unwrap,
    wrap,
    wrap_lines,
)
from graphlint.edits.places import (
    fork_and_join,
    graph_text,
    is_operand,
    kept_elements,
    kept_value,
    makes_graph,
    only_calculated,
    stream_text,
    unpacked,
    unused,
    zeroed_gradients,
)
from graphlint.edits.reading import (
    Reader,
    Statement,
    Text,
    assigned,
    comments,
    mentions,
    reading,
    statement,
    text,
    torch_name,
)
from graphlint.edits.syntax import code, expression, inner, is_name, is_number, is_plain, is_primary, names, parsed

if TYPE_CHECKING:
    from graphlint.edits.syntax import AssignNode, CallNode, ExpressionNode, ForNode, IfNode, Node, SubscriptNode

__all__ = [
    "AssignNode",
    "CallNode",
    "ExpressionNode",
    "ForNode",
    "IfNode",
    "Node",
    "Reader",
    "Shared",
    "Statement",
    "SubscriptNode",
    "Text",
    "after",
    "after_block",
    "append_to_block",
    "argument",
    "arguments",
    "assigned",
    "before",
    "behind_block",
    "body",
    "code",
    "comments",
    "delete",
    "drop_block",
    "expression",
    "first_inside",
    "fix",
    "fork_and_join",
    "function_lines",
    "graph_text",
    "has_else",
    "headers",
    "inner",
    "insert",
    "is_name",
    "is_number",
    "is_operand",
    "is_plain",
    "is_primary",
    "kept_elements",
    "kept_value",
    "lines",
    "made_on",
    "makes_graph",
    "mentions",
    "method",
    "move",
    "move_behind",
    "names",
    "only_calculated",
    "parsed",
    "previous",
    "reading",
    "replace",
    "rest_of_body",
    "rewrite",
    "rewrite_block",
    "spelled",
    "stands_after_block",
    "stands_before",
    "statement",
    "stream_text",
    "text",
    "torch_name",
    "unpacked",
    "unused",
    "unwrap",
    "without_argument",
    "wrap",
    "wrap_lines",
    "zeroed_gradients",
]
