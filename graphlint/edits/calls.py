"""Edits of the arguments of a call."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Mapping
from typing import TYPE_CHECKING

from graphlint.edits.reading import text
from graphlint.edits.syntax import code, expression, parsed
from graphlint.finding import Edit
from graphlint.source import Location, Span

if TYPE_CHECKING:
    pass


def argument(at: Location, name: str, value: str) -> Edit | None:
    """The call at `at` gets `name=value`; a value that it gives already is replaced."""
    tokens = _call_tokens(text(at))
    if tokens is None:
        return None
    given = _given(tokens, name)
    if given is not None:
        first, last = given
        return Edit(at.path, _inside(at, tokens[first].start, tokens[last].end), value)
    closing = tokens[-1]
    before = tokens[-2]
    comma = "" if before.string == "(" else " " if before.string == "," else ", "
    if closing.start[0] != before.end[0]:
        # The bracket stands on a line of its own: the argument gets one, too, in line with the one before.
        indent = _indent_of(text(at), before.start[0])
        comma = ("" if before.string in ",(" else ",") + "\n" + (indent if before.string != "(" else indent + "    ")
        value = f"{value}," if before.string == "," else value
    return Edit(at.path, _inside(at, before.end, before.end), f"{comma}{name}={value}")


def arguments(at: Location, values: Mapping[str, str]) -> Edit | None:
    """As `argument`, for several that the call does not give."""
    first, *rest = values.items()
    made = argument(at, *first)
    if made is None or not made.text.startswith(","):
        return None
    return Edit(made.path, made.span, made.text + "".join(f", {name}={value}" for name, value in rest))


def without_argument(at: Location, name: str) -> Edit | None:
    """The call at `at` loses `name=...`, with its comma; None if it does not give it."""
    tokens = _call_tokens(text(at))
    given = _given(tokens, name) if tokens is not None else None
    if tokens is None or given is None:
        return None
    first, last = given[0] - 2, given[1]
    if tokens[last + 1].string == ",":
        # Up to the next argument, or to the bracket.
        return Edit(at.path, _inside(at, tokens[first].start, tokens[last + 2].start), "")
    if tokens[first - 1].string == ",":
        return Edit(at.path, _inside(at, tokens[first - 1].start, tokens[last].end), "")
    return Edit(at.path, _inside(at, tokens[first].start, tokens[last].end), "")


#: What makes a tensor from nothing, or from Python data, and takes the device.
_FACTORIES = (
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm",
    "scalar_tensor", "tensor", "zeros",
)  # fmt: skip


def made_on(at: Location, device: str) -> Edit | None:
    """The call at `at`, which makes a tensor on the CPU, makes it on `device`; None if it gives a device already."""
    import libcst

    node = expression(at)
    if not isinstance(node, libcst.Call) or code(node.func).rpartition(".")[2] not in _FACTORIES:
        return None
    if any(a.keyword is not None and a.keyword.value in ("device", "out", "pin_memory") for a in node.args):
        return None
    return argument(at, "device", device)


def _call_tokens(call: str) -> list[tokenize.TokenInfo] | None:
    """The tokens of a call, comments and line breaks left out; the last is its closing bracket."""
    import libcst

    node = parsed(call)
    if not isinstance(node, libcst.Call):
        return None
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(call).readline) if t.type not in skip]
    except (tokenize.TokenError, SyntaxError):
        return None
    return tokens if tokens and tokens[-1].string == ")" else None


def _given(tokens: list[tokenize.TokenInfo], name: str) -> tuple[int, int] | None:
    """The first and last token of the value that `name=` has in the outermost call, which ends the tokens."""
    depth = 0
    opening = None
    for at in range(len(tokens) - 1, -1, -1):
        depth += (tokens[at].string in (")", "]", "}")) - (tokens[at].string in ("(", "[", "{"))
        if depth == 0:
            opening = at
            break
    if opening is None:
        return None
    depth = 0
    start: int | None = None
    for at in range(opening, len(tokens)):
        word = tokens[at].string
        if depth == 1 and start is not None and word in (",", ")"):
            return start, at - 1
        if depth == 1 and word == name and tokens[at + 1].string == "=" and tokens[at - 1].string in ("(", ","):
            start = at + 2
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
    return None


def _inside(at: Location, start: tuple[int, int], end: tuple[int, int]) -> Span:
    """Token positions in the text of `at` as a span of the file."""

    def place(position: tuple[int, int]) -> tuple[int, int]:
        row, column = position
        return at.span.line + row - 1, column + (at.span.column if row == 1 else 1)

    return Span(*place(start), *place(end))


def _indent_of(call: str, row: int) -> str:
    line = call.split("\n")[row - 1]
    return line[: len(line) - len(line.lstrip())]
