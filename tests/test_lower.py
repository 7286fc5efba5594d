"""Lowering: structure and places as in Python's own tree, in any slice, and no crash on what cannot be parsed."""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphlint.lower import lower_statements, lower_whole, tree
from graphlint.lower.convert import StatementLowerer
from graphlint.lower.cursor import Cursor
from graphlint.lower.depth import MAX_BRACKETS, MAX_DEPTH, too_deep
from graphlint.source import Source, SourceError, Span
from tests import shapes

STDLIB = Path(sysconfig.get_path("stdlib"))


def source(text: str) -> Source:
    return Source(Path("example.py"), text)


def lower(text: str) -> tuple[tree.Stmt, ...]:
    made = source(text)
    return lower_statements(made, 1, len(made.lines))


def only(text: str) -> Any:
    (statement,) = lower(text)
    return statement.value if isinstance(statement, tree.ExprStmt) else statement


def text_at(made: Source, span: Span) -> str:
    lines = made.lines[span.line - 1 : span.end_line]
    lines[-1] = lines[-1][: span.end_column - 1]
    lines[0] = lines[0][span.column - 1 :]
    return "\n".join(lines)


def spans_of_ast(made: Source, module: ast.Module, kind: type[ast.AST]) -> list[tuple[int, int, int, int]]:
    def column(line: int, offset: int) -> int:
        return len(made.lines[line - 1].encode()[:offset].decode()) + 1

    nodes: list[Any] = [node for node in shapes.ast_nodes(module) if type(node) is kind]
    return sorted(
        (n.lineno, column(n.lineno, n.col_offset), n.end_lineno, column(n.end_lineno, n.end_col_offset)) for n in nodes
    )


def spans_of_tree(statements: tuple[tree.Stmt, ...], kind: type[tree.Node]) -> list[tuple[int, int, int, int]]:
    spans = [n.span for n in shapes.tree_nodes(statements) if type(n) is kind]
    return sorted((s.line, s.column, s.end_line, s.end_column) for s in spans)


PAIRS = (
    (tree.Name, ast.Name),
    (tree.Call, ast.Call),
    (tree.Attribute, ast.Attribute),
    (tree.Subscript, ast.Subscript),
    (tree.BinOp, ast.BinOp),
    (tree.Compare, ast.Compare),
    (tree.ListExpr, ast.List),
    (tree.Lambda, ast.Lambda),
    (tree.Assign, ast.Assign),
    (tree.Return, ast.Return),
    (tree.Import, ast.Import),
)


def check(made: Source) -> None:
    """Structure and places agree with `ast`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = ast.parse(made.text)
    statements = lower_statements(made, 1, len(made.lines))
    assert shapes.of_tree(statements) == shapes.OfAst().block(module.body)
    for lowered, python in PAIRS:
        assert spans_of_tree(statements, lowered) == spans_of_ast(made, module, python), lowered


def _sample() -> list[Path]:
    files = sorted(p for p in STDLIB.glob("*.py") if 2_000 < p.stat().st_size < 30_000)
    files += sorted((STDLIB / "asyncio").glob("*.py"))
    return random.Random(7).sample(files, 16)


@pytest.mark.parametrize("path", _sample(), ids=lambda path: path.name)
def test_agrees_with_ast_on_the_standard_library(path: Path) -> None:
    check(Source.read(path))


EVERYTHING = '''\
"""doc"""
import a.b as c, d
from . import (e, f as g,)
from .. h import *
x = y = 1_000, 0x1F, 1e-3, 2j, ..., None, True, b"by" b"tes", r"\\d", "a\\n", 'x' "y"
x[1:2, ::3, ...], x[:], x[1,], x[*y]  # comment
del x, y[0]
x += 1; y @= 2; z: int = 3; w: "str"
(a) . b ( * c , d = 1 , ** e ) [ 0 ]
f(x for x in y if x if not x for z in x)
({**a, "b": 1}, {1, *b}, [*c], (), {}, [])
not a == b != c is not d not in e < f
a if b else c if d else e
a and b and (c or d or not e) or f
-a ** -b + ~c // d % e << f >> g & h | i ^ j
lambda: 0; lambda a, /, b=1, *c, d, e=2, **f: (yield)
(n := 10)
f"{a!r:>{b}} {{}} {c = } {d:%Y}" 'z' f"{e}"
assert a, b
global q, r
@dec(1)
@ dec . two
async def fun(a: int, /, b: str = "x", *c: tuple, d, e=None, **f) -> dict[str, int]:
    nonlocal_ = await a
    async with b as c, d as (e, f):
        async for g, *h in i: yield g
        else: pass
    return [j async for j in k]
class C(A, B[int], metaclass=M, **kw):
    x: int
    def m(self): return super().m()
    class D: pass
while a:
    if b: break
    elif c:
        continue
    else:
        raise D from None
else:
    raise
try:
    pass
except (A, B) as e:
    pass
except:
    pass
else:
    pass
finally:
    pass
with (
    a as b,
    c,  # why
):
    pass
for i, in j:
    pass
match a, b:
    case 1 | -2 | "x" as c if c: pass
    case [d, *e] | (d, *_): pass
    case {"k": f, **g}: pass
    case C(h, x=1.5) | C.D: pass
    case None: pass
    case (1) | (-2+3j): pass
    case _: pass
'''


def test_every_construct() -> None:
    text = EVERYTHING.replace("from .. h import *", "from ..h import *")
    check(source(text.replace("case [d, *e] | (d, *_)", "case [d, *e]").replace("x[*y]", "x[y]")))


def test_no_token_is_out_of_place() -> None:
    """The cursor met every token where the walk expected it: nothing that LibCST parses here is unknown to it."""
    import libcst

    made = source(EVERYTHING)
    cursor = Cursor(made, 1)
    StatementLowerer(cursor).block(libcst.parse_module(made.text).body)
    assert cursor.drifts == 0
    assert made.text[cursor.pos :].strip() == ""


NEWER = """\
type Pair[T] = tuple[T, T]
def first[T: (int, str), *Ts, **P](x: T, *args: *Ts) -> T: return x
class Box[T]:
    item: T
try:
    pass
except* ValueError as group:
    pass
with (open(a)) as b, c: pass
"""


def test_syntax_newer_than_the_running_python() -> None:
    alias, function, box, attempt, _ = lower(NEWER)
    assert isinstance(alias, tree.Assign) and isinstance(alias.targets[0], tree.Name) and alias.targets[0].id == "Pair"
    assert isinstance(function, tree.Function) and [p.name for p in function.params] == ["x", "args"]
    assert isinstance(box, tree.Class) and box.bases == ()
    assert isinstance(attempt, tree.Try) and attempt.handlers[0].name == "group"


def test_spans_count_code_points() -> None:
    made = source('s = "\N{GREEK SMALL LETTER ALPHA}\N{GRINNING FACE}"; call(s, \N{GREEK SMALL LETTER BETA}=1)')
    _, second = lower_statements(made, 1, 1)
    assert text_at(made, second.span) == "call(s, \N{GREEK SMALL LETTER BETA}=1)"
    assert second.span == Span(1, 11, 1, 23)


def test_header_spans_leave_the_body_out() -> None:
    made = source("@deco\ndef f(\n    a,\n) -> int:\n    if a : # why\n        return 1\n    with a as b: pass\n")
    (function,) = lower_statements(made, 1, 8)
    assert isinstance(function, tree.Function)
    assert text_at(made, function.span) == "def f(\n    a,\n) -> int:"
    assert function.lines == (1, 7)
    assert [text_at(made, s.span) for s in function.body] == ["if a :", "with a as b:"]


def test_names_are_compared_as_python_does() -> None:
    made = source("\N{FULLWIDTH LATIN SMALL LETTER W}idth + width")
    value = only(made.text)
    assert value.left.id == value.right.id == "width"
    assert text_at(made, value.left.span) == "\N{FULLWIDTH LATIN SMALL LETTER W}idth"


def test_f_strings_keep_values_and_text() -> None:
    value = only("""f"a{x!r:>{w}}{{b}}{y=}" "c" """)
    assert isinstance(value, tree.FString)
    assert [v.id for v in value.values if isinstance(v, tree.Name)] == ["x", "w", "y"]
    assert value.text == "a{}{b}{}c"


def test_match_cases() -> None:
    match = only("match a:\n case 1 | 2 as n if n: pass\n case {'k': [x, *y]}: pass\n case z: pass\n case _: pass\n")
    one, two, three, four = match.cases
    assert [v.value for v in one.values] == [1, 2] and one.names == ("n",) and one.guard is not None
    assert two.values == () and two.names == ("x", "y") and not two.irrefutable
    assert three.names == ("z",) and three.irrefutable and four.irrefutable and four.names == ()


# ------------------------------------------------------------------------------------------------ slices

SLICED = '''\
class A:
\tdef f(self):
\t\treturn """text
at the margin
"""

    # a comment at another depth
class B:
    def g(self): return 1; pass
    x = 1; y = 2
    def h(self):
            a = 1
# a comment at the margin
            def inner():
                yield a
            return inner
'''


def test_a_slice_has_the_places_and_names_of_the_whole() -> None:
    made = source(SLICED)
    (text,) = lower_statements(made, 3, 5)
    assert isinstance(text, tree.Return) and isinstance(text.value, tree.Constant)
    assert text.value.value == "text\nat the margin\n"
    assert text_at(made, text.span) == 'return """text\nat the margin\n"""'
    body = lower_statements(made, 12, 16, "B.h")
    assert [type(s).__name__ for s in body] == ["Assign", "Function", "Return"]
    inner = body[1]
    assert isinstance(inner, tree.Function) and inner.qualname == "B.h.inner" and inner.is_generator
    assert text_at(made, inner.span) == "def inner():"
    assert [type(s).__name__ for s in lower_statements(made, 10, 10)] == ["Assign", "Assign"]


def _definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[Any, str]]:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            yield child, prefix
            inner = f"{prefix}.{child.name}" if prefix else child.name
        yield from _definitions(child, inner)


@pytest.mark.parametrize("path", [*_sample()[:3], STDLIB / "contextlib.py"], ids=lambda path: path.name)
def test_each_definition_alone_is_what_it_is_in_the_whole(path: Path) -> None:
    made = Source.read(path)
    whole = {}
    for node in shapes.tree_nodes(lower_whole(made)):
        if isinstance(node, (tree.Function, tree.Class)):
            whole[node.span] = shapes.of_tree(node), spans_of_tree((node,), tree.Name)
    count = 0
    for node, prefix in _definitions(ast.parse(made.text)):
        first = min([node.lineno, *[d.lineno for d in node.decorator_list]])
        (alone,) = lower_statements(made, first, node.end_lineno, prefix)
        assert (shapes.of_tree(alone), spans_of_tree((alone,), tree.Name)) == whole[alone.span]
        count += 1
    assert count == len(whole)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("if a: x = 1\n", (1, 1)),
        ("if a:\n    b; \\\n  x = 1\n", (2, 3)),
        ("if a:\n\f    x = 1\n", (2, 2)),
        ("if a:\n\tif b:\n\t  x = 1\n", (3, 3)),
        ("a; s = '''\n'''; x = 1\n", (2, 2)),
        ("if a:\r\n    x = 1\r\n", (2, 2)),
        ("if a:\r    x = 1\r", (2, 2)),
        ("if a:\n    x = 1", (2, 2)),
    ],
)
def test_odd_slices_find_their_statement(text: str, lines: tuple[int, int]) -> None:
    """Continuation lines, form feeds, tabs, strings that end on the line, every kind of line end, none at all."""
    made = source(text)
    found = [n for s in lower_statements(made, *lines) for n in _statements(s) if isinstance(n, tree.Assign)]
    assert [text_at(made, n.span) for n in found if text_at(made, n.span).startswith("x")] == ["x = 1"]


def _statements(statement: tree.Stmt) -> list[tree.Stmt]:
    from graphlint.lower import blocks

    return [statement, *[inner for block in blocks(statement) for s in block for inner in _statements(s)]]


# ------------------------------------------------------------------------------------------------ what is refused

DEEP = {
    "parentheses": lambda n: "(" * n + "x" + ")" * n,
    "lists": lambda n: "[" * n + "]" * n,
    "open brackets": lambda n: "{[(" * n,
    "sum": lambda n: "1" + "+1" * n,
    "attributes": lambda n: "a" + ".b" * n,
    "calls": lambda n: "f" + "()" * n,
    "calls in calls": lambda n: "f(" * n + ")" * n,
    "subscripts": lambda n: "a" + "[0]" * n,
    "not": lambda n: "not " * n + "x",
    "minus": lambda n: "-" * n + "x",
    "power": lambda n: "a" + "**a" * n,
    "lambda": lambda n: "lambda: " * n + "x",
    "lambda with commas": lambda n: "lambda a, b: " * n + "x",
    "ternary": lambda n: "a if b else " * n + "c",
    "comprehension": lambda n: "[x " + "for x in y " * n + "]",
    "strings": lambda n: "'x' " * n,
    "f-strings": lambda n: "f'{x}' " * n,
    "strings on lines": lambda n: "(" + "'x'\n" * n + ")",
    "elif": lambda n: "if a: pass\n" + "elif b: pass\n" * n,
    "walrus": lambda n: "(a := " * n + "1" + ")" * n,
}  # fmt: skip


@pytest.mark.parametrize("count", [3_000, 5_000])
@pytest.mark.parametrize("kind", DEEP)
def test_deep_nesting_is_one_line_of_error(kind: str, count: int) -> None:
    with pytest.raises(SourceError, match="nested too deeply") as caught:
        lower(DEEP[kind](count) + "\n")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [kind for kind in DEEP if kind != "open brackets"])
def test_moderate_nesting_is_lowered(kind: str) -> None:
    assert lower(DEEP[kind](100) + "\n")


def test_wide_is_not_deep() -> None:
    for text in (
        "f(" + "a.b[0], " * 5_000 + ")",
        "x = [" + "-1 + 2,\n" * 5_000 + "]",
        "x = a.b + c\n" * 5_000,
        "a = " * 2_000 + "1",
        "if a: pass\nelif b: pass\nelse: pass\n" * 1_000,
        "x = '" + "(" * 5_000 + "'  # " + "(" * 5_000,
    ):
        assert not too_deep(text)


def test_the_bound_is_where_it_is_said_to_be() -> None:
    assert not too_deep("(" * MAX_BRACKETS + ")" * MAX_BRACKETS)
    assert too_deep("(" * (MAX_BRACKETS + 1) + ")" * (MAX_BRACKETS + 1))
    assert not too_deep("1" + "+1" * MAX_DEPTH)
    assert too_deep("1" + "+1" * (MAX_DEPTH + 1))


@pytest.mark.parametrize(
    "text",
    [
        "try: 1\nexcept: 2\nexcept E: 3\n",
        "def f(:\n",
        "x = = 1\n",
        "print 'x'\n",
        "'''\n",
        "  x\n y\n",
        "if a:\n",
        "\\",
    ],
)
def test_syntax_errors_are_one_line_with_a_place(text: str) -> None:
    with pytest.raises(SourceError, match=r"^syntax error \(line \d+\)$"):
        lower("a = 1\n" + text)


_WORDS = """
    def f(a): | class A: | if x: | else: | elif y: | for i in j: | while 1: | with a as b: | try: | except E: | match a:
    case 1: | return | x = 1 | ( | ) | [ | ] | { | } | ' | " | \'\'\' | \\ | # | lambda | f'{x | }' | ; | , | . | = | :=
    -> | * | ** | @ | await | async | yield | not | import a | from . import b | 0x | 1e | ... | type X = 1 | global z
"""
WORDS = st.sampled_from(
    [
        *(word.strip() for line in _WORDS.strip().split("\n") for word in line.split("|")),
        "\n",
        "\n    ",
        "\t",
        "\f",
        "é",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=25).map(" ".join))
def test_any_text_is_lowered_or_refused(text: str) -> None:
    made = source(text)
    try:
        statements = lower_statements(made, 1, len(made.lines))
    except SourceError as error:
        assert "\n" not in str(error)
        return
    for node in shapes.tree_nodes(statements):
        span = node.span
        assert 1 <= span.line <= span.end_line <= len(made.lines)
        if isinstance(node, tree.Name) and node.id.isascii():
            assert text_at(made, span) == node.id


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_code_is_lowered_or_refused(data: st.DataObject) -> None:
    lines = EVERYTHING.split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        where = data.draw(st.integers(0, len(lines) - 1))
        line = lines[where]
        cut = data.draw(st.integers(0, len(line)))
        lines[where] = (
            line[:cut] + data.draw(st.sampled_from(["", " ", "(", "]", "'", ":", "\n", "#", "0"])) + line[cut + 1 :]
        )
    made = source("\n".join(lines))
    try:
        statements = lower_statements(made, 1, len(made.lines))
    except SourceError as error:
        assert "\n" not in str(error)
        return
    names = [node for node in shapes.tree_nodes(statements) if isinstance(node, tree.Name)]
    assert all(text_at(made, name.span) == name.id for name in names)
