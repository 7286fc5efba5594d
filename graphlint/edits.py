"""What rules write fixes with: small text edits, each checked against the syntax, None where one cannot be made.

    fix = edits.fix("build it with `capturable=True`", edits.argument(optimizer.made, "capturable", "True"), safe=True)

Glossary:
    at         the location of an expression or statement, as facts carry it.
    statement  the logical line around a location, brackets included; for a compound statement its header.
    reader     where texts come from: the program that is analysed, so that unsaved buffers are seen.

Every function that makes an Edit gives None if the text is not what it expects; `fix` gives None if any edit is None.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphlint.finding import Edit, Fix
from graphlint.source import Location, Source, SourceError, Span

if TYPE_CHECKING:
    import libcst

    Node: TypeAlias = libcst.CSTNode
    ExpressionNode: TypeAlias = libcst.BaseExpression
    CallNode: TypeAlias = libcst.Call
    ForNode: TypeAlias = libcst.For
    IfNode: TypeAlias = libcst.If
    SubscriptNode: TypeAlias = libcst.Subscript
    AssignNode: TypeAlias = libcst.Assign | libcst.AugAssign

Reader = Callable[[Path], Source]
_reader: ContextVar[Reader | None] = ContextVar("graphlint_reader", default=None)
#: The last files that were asked for, with their statements: fixes of one file come together.
_KEEP = 8
_texts: ContextVar[dict[str, Text] | None] = ContextVar("graphlint_texts", default=None)


@dataclass(frozen=True, slots=True)
class Statement:
    """A logical line: from its first token to its last; `indent` is the white space before it."""

    span: Span
    indent: str
    compound: bool
    """True if it ends in a colon: what follows is its body."""


@dataclass(slots=True)
class Text:
    """A file's text and its statements, in order."""

    source: Source
    statements: list[Statement]


@contextmanager
def reading(reader: Reader) -> Iterator[None]:
    """Within, texts come from `reader` and each file is read once."""
    first, second = _reader.set(reader), _texts.set({})
    try:
        yield
    finally:
        _reader.reset(first)
        _texts.reset(second)


def _text(path: str) -> Text | None:
    kept = _texts.get()
    if kept is not None and path in kept:
        return kept[path]
    try:
        source = (_reader.get() or Source.read)(Path(path))
    except SourceError:
        return None
    text = Text(source, _statements(source))
    if kept is not None:
        while len(kept) >= _KEEP:
            kept.pop(next(iter(kept)))
        kept[path] = text
    return text


def _statements(source: Source) -> list[Statement]:
    """The logical lines of a file, as far as it can be tokenized."""
    found: list[Statement] = []
    lines = source.lines
    reader = io.StringIO("\n".join(lines) + "\n")
    first: tuple[int, int] | None = None
    last: tokenize.TokenInfo | None = None
    skip = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    try:
        for token in tokenize.generate_tokens(reader.readline):
            if token.type == tokenize.NEWLINE:
                if first is not None and last is not None:
                    span = Span(first[0], first[1] + 1, last.end[0], last.end[1] + 1)
                    found.append(Statement(span, lines[first[0] - 1][: first[1]], last.string == ":"))
                first = None
            elif token.type not in skip:
                first = first or token.start
                last = token
    except (tokenize.TokenError, SyntaxError):
        pass
    return found


# ---------------------------------------------------------------------------------------------------- looking


def text(at: Location) -> str:
    """The source text of a location, "" if it cannot be read."""
    found = _text(at.path)
    return _slice(found.source, at.span) if found is not None else ""


def assigned(path: str, name: str) -> list[str]:
    """What a file assigns to a dotted name anywhere, as text."""
    found = _text(path)
    if found is None:
        return []
    codes = (_slice(found.source, s.span) for s in found.statements)
    return [code.partition("=")[2].strip() for code in codes if code.partition("=")[0].strip() == name]


def torch_name(path: str) -> str | None:
    """What a file calls `torch`, None if it does not import it."""
    found = _text(path)
    for each in found.statements if found is not None else ():
        code = _slice(found.source, each.span) if found is not None else ""
        for part in code.removeprefix("import ").split(",") if code.startswith("import ") else ():
            package, _, alias = (word.strip() for word in part.partition(" as "))
            if package == "torch" or (package.startswith("torch.") and not alias):
                return alias or "torch"
    return None


def unused(at: Location, name: str) -> str:
    """`name`, or it with a number behind, such that the function around `at` does not use it."""

    used = {word for line in function_lines(at) for word in re.findall(r"\w+", text(line))}
    return next(word for word in (name, *(f"{name}{n}" for n in range(2, len(used) + 3))) if word not in used)


def fork_and_join(at: Location) -> tuple[tuple[str, str, str], str] | None:
    """Lines that open a block on a side stream of their own, and the one that joins it; None without torch."""
    torch, side = torch_name(at.path), unused(at, "side")
    if torch is None:
        return None
    current = f"{torch}.cuda.current_stream()"
    opened = f"{side} = {torch}.cuda.Stream()", f"{side}.wait_stream({current})", f"with {torch}.cuda.stream({side}):"
    return opened, f"{current}.wait_stream({side})"


def _slice(source: Source, span: Span) -> str:
    lines = source.lines[span.line - 1 : span.end_line]
    if len(lines) != span.end_line - span.line + 1:
        return ""
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def statement(at: Location) -> Statement | None:
    """The statement that a location stands in."""
    found = _text(at.path)
    if found is None:
        return None
    place = (at.span.line, at.span.column)
    for candidate in found.statements:
        span = candidate.span
        if (span.line, span.column) <= place < (span.end_line, span.end_column):
            return candidate
    return None


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


def body(at: Location) -> tuple[Span, list[str]] | None:
    """The lines below the header around `at`: their span, and their text without the common indentation."""
    import textwrap

    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or not found.compound:
        return None
    inside: list[Statement] = []
    for candidate in source.statements[source.statements.index(found) + 1 :]:
        if len(candidate.indent.expandtabs()) <= len(found.indent.expandtabs()):
            break
        inside.append(candidate)
    if not inside or inside[0].span.line == found.span.line:
        return None
    span = Span(
        inside[0].span.line, 1, inside[-1].span.end_line, len(source.source.lines[inside[-1].span.end_line - 1]) + 1
    )
    return span, textwrap.dedent("\n".join(source.source.lines[span.line - 1 : span.end_line])).split("\n")


# ---------------------------------------------------------------------------------------------------- edits


def after_block(at: Location, *lines: str) -> Edit | None:
    """Statements behind the whole block whose header is around `at`, in line with the header."""
    found, block = statement(at), body(at)
    if found is None or block is None:
        return None
    end = block[0]
    new = "".join(f"\n{found.indent}{line}" if line else "\n" for line in lines)
    return Edit(at.path, Span(end.end_line, end.end_column, end.end_line, end.end_column), new)


def append_to_block(at: Location, line: str) -> Edit | None:
    """A statement at the end of the body below the header around `at`."""
    first, block = first_inside(at), body(at)
    inner_ = statement(first) if first is not None else None
    if inner_ is None or block is None:
        return None
    end = block[0]
    return Edit(at.path, Span(end.end_line, end.end_column, end.end_line, end.end_column), f"\n{inner_.indent}{line}")


def behind_block(at: Location) -> Location | None:
    """The statement behind the body below the header around `at`."""
    block, source = body(at), _text(at.path)
    if block is None or source is None:
        return None
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    return Location(at.path, following.span) if following is not None else None


def replace(at: Location, new: str) -> Edit | None:
    """The expression at `at` becomes `new`."""
    return Edit(at.path, at.span, new) if text(at) and parsed(new) is not None else None


def spelled(at: Location, new: str) -> Edit | None:
    """The text at `at`, which need not be an expression, becomes `new`: a header of a block, a statement."""
    return Edit(at.path, at.span, new) if text(at) else None


def wrap_lines(first: Location, last: Location, header: str) -> Edit | None:
    """The simple statements from `first` to `last`, which stand in one body, move into a block below `header`."""
    one, two, source = statement(first), statement(last), _text(first.path)
    if one is None or two is None or source is None or one.indent.strip() or one.indent != two.indent:
        return None
    rows = source.source.lines[one.span.line - 1 : two.span.end_line]
    if _has_long_text("\n".join(rows)):
        return None
    inside = [f"{one.indent}    {row[len(one.indent) :]}" if row.strip() else row for row in rows]
    span = Span(one.span.line, 1, two.span.end_line, len(rows[-1]) + 1)
    return Edit(first.path, span, "\n".join([one.indent + header, *inside]))


def insert(at: Location, new: str, *, end: bool = False) -> Edit | None:
    """`new` is put before the location, or behind it."""
    if not text(at):
        return None
    span = at.span
    line, column = (span.end_line, span.end_column) if end else (span.line, span.column)
    return Edit(at.path, Span(line, column, line, column), new)


def method(at: Location, call: str) -> Edit | None:
    """`x` becomes `x.call`, in brackets where that is needed: `method(at, "clone()")`."""
    old = text(at)
    if not old or parsed(f"({old}\n).{call}") is None:
        return None
    if is_primary(old):
        return insert(at, f".{call}", end=True)
    return Edit(at.path, at.span, f"({old}).{call}")


def zeroed_gradients(at: Location, owner: str, *, optimizer: bool) -> Edit | None:
    """The statement at `at` gives the parameters of a module, or of an optimizer, gradients of their own."""
    torch = torch_name(at.path)
    lines_ = [f"for parameter in {owner}.parameters():"]
    if optimizer:
        lines_ = [f"for group in {owner}.param_groups:", '    for parameter in group["params"]:']
    deep = "    " * len(lines_)
    lines_ += [f"{deep}if parameter.requires_grad:", f"{deep}    parameter.grad = {torch}.zeros_like(parameter)"]
    return rewrite(at, *lines_) if torch is not None and is_name(owner) else None


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


def before(at: Location, *lines: str) -> Edit | None:
    """Statements in front of the one at `at`, with its indentation; further indentation is relative to it."""
    found = statement(at)
    if found is None or found.indent.strip() or _has_long_text("\n".join(lines)):
        return None
    if (shared := _shared(at)) is not None and not shared.first:
        return None
    new = "".join(f"{found.indent}{line}\n" if line else "\n" for line in lines)
    line = found.span.line
    return Edit(at.path, Span(line, 1, line, 1), new)


def after(at: Location, *lines: str) -> Edit | None:
    """Statements behind the simple one at `at`, with its indentation; None if others follow on its line."""
    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or found.compound or found.indent.strip():
        return None
    if (shared := _shared(at)) is not None and not shared.last:
        return None
    end = found.span.end_line
    text_end = len(source.source.lines[end - 1]) + 1
    new = "".join(f"\n{found.indent}{line}" if line else "\n" for line in lines)
    return Edit(at.path, Span(end, text_end, end, text_end), new)


def rewrite(at: Location, *lines: str) -> Edit | None:
    """The simple statement at `at` becomes these, with its indentation; a comment behind it stays behind the last.

    Where it shares its line with others (`a; b`, `if c: a`), one line may take its place.
    """
    found = statement(at)
    if found is None or found.compound:
        return None
    if (shared := _shared(at)) is not None:
        alone = len(lines) == 1 and shared.at is not None
        return Edit(at.path, shared.at.span, lines[0]) if alone and shared.at is not None else None
    return Edit(at.path, found.span, f"\n{found.indent}".join(lines))


def delete(at: Location) -> Edit | None:
    """The simple statement at `at` goes, with its line and the comment behind it.

    It becomes `pass` where a body would be empty without it, or where others stand on its line.
    """
    found = statement(at)
    source = _text(at.path)
    if found is None or source is None or found.compound:
        return None
    if (shared := _shared(at)) is not None:
        return Edit(at.path, shared.at.span, "pass") if shared.at is not None else None
    lines = source.source.lines
    if _only_one(found, source.statements) or found.span.end_line >= len(lines):
        return Edit(at.path, found.span, "pass")
    return Edit(at.path, Span(found.span.line, 1, found.span.end_line + 1, 1), "")


def move(at: Location, to: Location) -> tuple[Edit | None, Edit | None]:
    """The simple statement around `at` goes in front of the one at `to`, with the comment behind it."""
    moved = lines(at)
    return delete(at), before(to, *moved) if moved else None


def move_behind(at: Location, header: Location) -> list[Edit | None]:
    """The simple statement around `at` goes behind the block of `header` that it stands in."""
    found, block, outer, moved = statement(at), body(header), statement(header), lines(at)
    if found is None or block is None or outer is None or not moved or _shared(at) is not None:
        return [None]
    if found.span.end_line < block[0].end_line:
        return [delete(at), after_block(header, *moved)]
    left = [f"{found.indent}pass"] if found.span.line == block[0].line else []
    new = [*left, *(outer.indent + line for line in moved)]
    return [Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), "\n".join(new))]


def lines(at: Location) -> list[str]:
    """The simple statement around `at` without its indentation, with the comment behind it; empty if it has none."""
    import textwrap

    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.compound:
        return []
    if (shared := _shared(at)) is not None:
        return [text(shared.at)] if shared.at is not None and shared.at.span.line == shared.at.span.end_line else []
    whole = source.source.lines[found.span.line - 1 : found.span.end_line]
    if len(whole) > 1 and _has_long_text("\n".join(whole)):
        return []
    return textwrap.dedent("\n".join(whole)).rstrip().split("\n")


@dataclass(frozen=True, slots=True)
class Shared:
    """A simple statement that shares its line with others, or with the header that it belongs to.

    `at` is the statement, None for the header of `if c: a`; `first` and `last` say whether it begins or ends the line.
    """

    at: Location | None
    first: bool
    last: bool


_HEADERS = ("if", "for", "while", "with", "try", "elif", "else", "except", "finally", "def", "class", "async", "match")


def _shared(at: Location) -> Shared | None:
    """How the simple statement around `at` shares its line; None if it has the line for itself."""
    import libcst

    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.compound:
        return None
    code = _slice(source.source, found.span)
    word = re.match(r"\w*", code)
    header = word is not None and word[0] in _HEADERS
    if not header and not any(t.type == tokenize.OP and t.string == ";" for t in _tokens(code)):
        return None
    parts = [p for p, n in inner(Location(at.path, found.span)) if isinstance(n, libcst.BaseSmallStatement)]
    mine = next((p for p in parts if _within(at.span, p.span)), None)
    if mine is None:
        ahead = not parts or (at.span.line, at.span.column) < (parts[0].span.line, parts[0].span.column)
        return Shared(None, first=ahead, last=False)
    return Shared(mine, first=mine == parts[0] and not header, last=mine == parts[-1] and not header)


def first_inside(at: Location) -> Location | None:
    """The first statement of the body below the header around `at`."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None:
        return None
    return Location(at.path, source.statements[source.statements.index(found) + 1].span)


def mentions(path: str, pattern: str) -> list[Location]:
    """The statements of a file in which a regular expression is found, in order."""

    found = _text(path)
    if found is None:
        return []
    matches = (s.span for s in found.statements if re.search(pattern, _slice(found.source, s.span)))
    return [Location(path, span) for span in matches]


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


def function_lines(at: Location) -> list[Location]:
    """Every statement of the function around `at`, headers of blocks included, in order; of the file outside one."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    number = source.statements.index(found)
    width = len(found.indent.expandtabs())
    first = 0
    for before_ in range(number - 1, -1, -1):
        candidate = source.statements[before_]
        if candidate.compound and len(candidate.indent.expandtabs()) < width:
            width = len(candidate.indent.expandtabs())
            if _slice(source.source, candidate.span).startswith(("def ", "async def ", "class ")):
                first = before_ + 1
                break
    else:
        width = -1
    lines_: list[Location] = []
    for candidate in source.statements[first:]:
        if len(candidate.indent.expandtabs()) <= width:
            break
        lines_.append(Location(at.path, candidate.span))
    return lines_


def headers(at: Location) -> list[Location]:
    """The headers of the blocks around the statement at `at` in its function, innermost first."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    around: list[Location] = []
    width = len(found.indent.expandtabs())
    for candidate in reversed(source.statements[: source.statements.index(found)]):
        if candidate.compound and len(candidate.indent.expandtabs()) < width:
            if _slice(source.source, candidate.span).startswith(("def ", "async def ", "class ")):
                break
            width = len(candidate.indent.expandtabs())
            around.append(Location(at.path, candidate.span))
    return around


def fix(title: str, *edits: Edit | None, safe: bool) -> Fix | None:
    """A Fix of these edits, None if one of them could not be made."""
    made = [edit for edit in edits if edit is not None]
    return Fix(title, tuple(made), safe) if made and len(made) == len(edits) else None


def _only_one(found: Statement, statements: list[Statement]) -> bool:
    """Whether a body would be empty without this statement."""
    at = statements.index(found)
    previous = statements[at - 1] if at > 0 else None
    following = statements[at + 1] if at + 1 < len(statements) else None
    opens = previous is not None and previous.compound and len(previous.indent) < len(found.indent)
    return opens and (following is None or len(following.indent) < len(found.indent))


def rewrite_block(at: Location, *lines: str) -> Edit | None:
    """The header around `at` and its body become these statements; comments are kept."""
    found, block = statement(at), body(at)
    source = _text(at.path)
    if found is None or block is None or source is None:
        return None
    span = Span(found.span.line, found.span.column, block[0].end_line, block[0].end_column)
    notes = comments(source.source, span)
    new = [*lines[:-1], f"{lines[-1]}  {notes[0]}"] if len(notes) == 1 else [*notes, *lines]
    return Edit(at.path, span, f"\n{found.indent}".join(new))


def wrap(at: Location, ahead: Sequence[str], behind: Sequence[str] = ()) -> Edit | None:
    """The statement around `at`, with its body, moves into the block that the last line of `ahead` opens.

    None for a loop with `else`, and where a text over several lines would change by its new indentation.
    """
    found, source = statement(at), _text(at.path)
    if found is None or source is None or found.indent.strip() or (found.compound and has_else(at)):
        return None
    if _shared(at) is not None:
        return None
    block = body(at) if found.compound else None
    if found.compound and block is None:
        return None
    first, last = found.span.line, block[0].end_line if block is not None else found.span.end_line
    lines = source.source.lines[first - 1 : last]
    if _has_long_text("\n".join(lines)):
        return None
    inside = [f"{found.indent}    {line[len(found.indent) :]}" if line.strip() else line for line in lines]
    new = [*(found.indent + line for line in ahead), *inside, *(found.indent + line for line in behind)]
    return Edit(at.path, Span(first, 1, last, len(lines[-1]) + 1), "\n".join(new))


def drop_block(at: Location) -> Edit | None:
    """The header around `at` goes, and its body; comments are kept, and `pass` where nothing would be left."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None or has_else(at) or found.indent.strip():
        return None
    notes = comments(source.source, Span(found.span.line, 1, block[0].end_line, 1))
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    number = source.statements.index(found)
    opens = number > 0 and source.statements[number - 1].compound
    opens = opens and len(source.statements[number - 1].indent) < len(found.indent)
    left = following is not None and len(following.indent) >= len(found.indent)
    kept = [*notes, *(["pass"] if opens and not left else [])]
    if block[0].end_line >= len(source.source.lines):
        return Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), found.indent + "pass")
    new = "".join(f"{found.indent}{line}\n" for line in kept)
    return Edit(at.path, Span(found.span.line, 1, block[0].end_line + 1, 1), new)


def unwrap(at: Location) -> Edit | None:
    """The body below the header around `at` takes the place of both."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None or has_else(at) or found.indent.strip():
        return None
    if _has_long_text("\n".join(block[1])):
        return None
    notes = comments(source.source, Span(found.span.line, 1, found.span.end_line, 1))
    new = [found.indent + line if line else line for line in (*notes, *block[1])]
    return Edit(at.path, Span(found.span.line, 1, block[0].end_line, block[0].end_column), "\n".join(new))


def rest_of_body(at: Location) -> list[Location]:
    """The statements behind the one around `at`, with its body, up to the end of the body that it stands in.

    Empty if one of them has a body of its own.
    """
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return []
    block = body(at) if found.compound else None
    last = block[0].end_line if block is not None else found.span.end_line
    following: list[Location] = []
    for candidate in source.statements:
        if candidate.span.line <= last:
            continue
        if len(candidate.indent.expandtabs()) < len(found.indent.expandtabs()):
            break
        if candidate.compound or candidate.indent != found.indent:
            return []
        following.append(Location(at.path, candidate.span))
    return following


def comments(source: Source, span: Span) -> list[str]:
    """The comments in these lines, in order."""
    code = "\n".join(source.lines[span.line - 1 : span.end_line])
    return [token.string for token in _tokens(code) if token.type == tokenize.COMMENT]


def _has_long_text(code: str) -> bool:
    """Whether a string goes on over a line end."""
    return any(t.start[0] != t.end[0] for t in _tokens(code) if t.type not in (tokenize.NEWLINE, tokenize.NL))


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    """The tokens of some lines, as far as they can be told."""
    import textwrap

    found: list[tokenize.TokenInfo] = []
    with suppress(tokenize.TokenError, SyntaxError):
        found += tokenize.generate_tokens(io.StringIO(textwrap.dedent(code) + "\n").readline)
    return found


def arguments(at: Location, values: Mapping[str, str]) -> Edit | None:
    """As `argument`, for several that the call does not give."""
    first, *rest = values.items()
    made = argument(at, *first)
    if made is None or not made.text.startswith(","):
        return None
    return Edit(made.path, made.span, made.text + "".join(f", {name}={value}" for name, value in rest))


# ---------------------------------------------------------------------------------------------------- common places


def graph_text(at: Location) -> str | None:
    """How the source spells the graph of the capture at `at`: `torch.cuda.graph(g)`, `g.capture_begin()`."""
    import libcst

    node = expression(at)
    if not isinstance(node, libcst.Call):
        return None
    if isinstance(node.func, libcst.Attribute) and node.func.attr.value == "capture_begin":
        return code(node.func.value)
    for number, argument_ in enumerate(node.args):
        name = argument_.keyword.value if argument_.keyword is not None else None
        if (number == 0 and name is None and not argument_.star) or name == "cuda_graph":
            value = argument_.value
            return code(value) if isinstance(value, (libcst.Name, libcst.Attribute)) else None
    return None


def stream_text(at: Location) -> str | None:
    """How the source spells the stream of `with torch.cuda.stream(s):` around `at`."""
    import libcst

    for _, node in inner(at):
        if not isinstance(node, libcst.Call) or len(node.args) != 1:
            continue
        named = code(node.func).rpartition(".")[2] in ("stream", "StreamContext")
        if named and isinstance(node.args[0].value, (libcst.Name, libcst.Attribute)):
            return code(node.args[0].value)
    return None


_KEEPERS = ("append", "appendleft", "extend", "insert", "put", "put_nowait", "add", "setdefault", "send")


def kept_value(at: Location) -> Location | None:
    """The expression that a statement keeps: what it appends, assigns, returns, yields or collects."""
    import libcst

    wanted, nodes = _kept(at)
    if wanted is None or isinstance(wanted, (libcst.Tuple, libcst.List, libcst.Dict, libcst.Set)):
        return None
    return next((place for place, node in nodes if node is wanted), None)


def kept_elements(at: Location) -> list[Location]:
    """The elements of the tuple or list that a statement keeps, if it is written out there."""
    import libcst

    wanted, _ = _kept(at)
    whole = statement(at)
    if not isinstance(wanted, (libcst.Tuple, libcst.List)) or whole is None:
        return []
    every = inner(Location(at.path, whole.span))
    same = next((n for _, n in every if isinstance(n, type(wanted)) and n.deep_equals(wanted)), wanted)
    places = [next((p for p, n in every if n is element.value), None) for element in same.elements]
    return [p for p in places if p is not None] if None not in places else []


def _kept(at: Location) -> tuple[ExpressionNode | None, list[tuple[Location, Node]]]:
    """What a statement keeps, and the nodes that were looked at."""
    import libcst

    nodes = inner(at)
    whole = statement(at)
    if whole is not None and any(isinstance(node, libcst.AssignTarget) for _, node in nodes):
        nodes = inner(Location(at.path, whole.span))  # what is kept stands on the other side
    wanted: libcst.BaseExpression | None = None
    for _, node in nodes:
        if isinstance(node, (libcst.ListComp, libcst.SetComp, libcst.GeneratorExp, libcst.DictComp)):
            if wanted is None or wanted is node:
                wanted = node.value if isinstance(node, libcst.DictComp) else node.elt
        elif isinstance(node, libcst.Call) and isinstance(node.func, libcst.Attribute):
            if node.func.attr.value in _KEEPERS and node.args and wanted is None:
                wanted = node.args[-1].value
        elif isinstance(node, (libcst.Assign, libcst.AnnAssign, libcst.Return, libcst.Yield)) and wanted is None:
            value = node.value
            wanted = value if isinstance(value, libcst.BaseExpression) else None
            if isinstance(wanted, libcst.DictComp):
                wanted = wanted.value
            elif isinstance(wanted, (libcst.ListComp, libcst.SetComp, libcst.GeneratorExp)):
                wanted = wanted.elt
    return wanted, nodes


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


def previous(at: Location) -> Location | None:
    """The statement in front of the one around `at`, None if that is the first of the file."""
    found, source = statement(at), _text(at.path)
    if found is None or source is None:
        return None
    number = source.statements.index(found)
    return Location(at.path, source.statements[number - 1].span) if number > 0 else None


def stands_before(at: Location, line: str) -> bool:
    """Whether the statement in front of the one around `at` is `line`."""
    found = previous(at)
    return found is not None and text(found) == line


def stands_after_block(at: Location, line: str) -> bool:
    """Whether the statement behind the block whose header is around `at` is `line`."""
    block, source = body(at), _text(at.path)
    if block is None or source is None:
        return False
    following = next((s for s in source.statements if s.span.line > block[0].end_line), None)
    return following is not None and _slice(source.source, following.span) == line


def has_else(at: Location) -> bool:
    """Whether the block whose header is around `at` is followed by `else`, `elif`, `except` or `finally`."""
    found, block, source = statement(at), body(at), _text(at.path)
    if found is None or block is None or source is None:
        return False
    following = [s for s in source.statements if s.span.line > block[0].end_line]
    if not following or following[0].indent != found.indent:
        return False
    return _slice(source.source, following[0].span).startswith(("else", "elif", "except", "finally"))


# ---------------------------------------------------------------------------------------------------- calls


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
