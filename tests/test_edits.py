"""What rules write fixes with, on texts as people write them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from graphlint import edits
from graphlint.finding import Edit
from graphlint.fix import rewrite
from graphlint.source import Location, Source, Span


def locate(text: str, part: str) -> Location:
    start = text.index(part)
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1) + 1
    rows = part.split("\n")
    end = Span(line, column, line + len(rows) - 1, (column if len(rows) == 1 else 1) + len(rows[-1]))
    return Location("/a.py", end)


def made(text: str, part: str, make: Callable[[Location], Edit | None]) -> str | None:
    """The text after the edit at `part`, None if there is no edit; what parsed must still parse."""
    source = Source(Path("/a.py"), text)
    with edits.reading(lambda path: source):
        edit = make(locate(text, part))
    if edit is None:
        return None
    new = rewrite(source, [edit])
    ast.parse(new)
    return new


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("o = Adam(p)\n", "Adam(p)", "o = Adam(p, capturable=True)\n"),
        ("o = Adam()\n", "Adam()", "o = Adam(capturable=True)\n"),
        ("o = Adam(p,)\n", "Adam(p,)", "o = Adam(p, capturable=True)\n"),
        ("o = Adam(p, capturable=False)\n", "Adam(p, capturable=False)", "o = Adam(p, capturable=True)\n"),
        ("o = Adam(f(capturable=0), lr=1)\n", "Adam(f(capturable=0), lr=1)",
         "o = Adam(f(capturable=0), lr=1, capturable=True)\n"),
        ("o = f(capturable=1)(p)\n", "f(capturable=1)(p)", "o = f(capturable=1)(p, capturable=True)\n"),
        ("o = Adam(\n    p,\n    lr=1,\n)\n", "Adam(\n    p,\n    lr=1,\n)",
         "o = Adam(\n    p,\n    lr=1,\n    capturable=True,\n)\n"),
        ("o = Adam(\n    p,\n    lr=1  # rate\n)\n", "Adam(\n    p,\n    lr=1  # rate\n)",
         "o = Adam(\n    p,\n    lr=1,\n    capturable=True  # rate\n)\n"),
        ("o = Adam(p, **kw)\n", "Adam(p, **kw)", "o = Adam(p, **kw, capturable=True)\n"),
        ("é = Adam(p)\n", "Adam(p)", "é = Adam(p, capturable=True)\n"),
    ],
)  # fmt: skip
def test_an_argument_is_added_or_replaced(text: str, part: str, expected: str) -> None:
    assert made(text, part, lambda at: edits.argument(at, "capturable", "True")) == expected
    again = expected[expected.index("Adam") if "Adam" in expected else expected.index("f(") :].rstrip("\n")
    assert made(expected, again, lambda at: edits.argument(at, "capturable", "True")) == expected


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("f(p, b=1)\n", "f(p, b=1)", "f(p)\n"),
        ("f(b=1, c=2)\n", "f(b=1, c=2)", "f(c=2)\n"),
        ("f(b=1)\n", "f(b=1)", "f()\n"),
        ("f(p, b=(1, 2), c=3)\n", "f(p, b=(1, 2), c=3)", "f(p, c=3)\n"),
        ("f(p, c=3)\n", "f(p, c=3)", None),
        ("f(g(b=1))\n", "f(g(b=1))", None),
    ],
)
def test_an_argument_is_taken_away(text: str, part: str, expected: str | None) -> None:
    assert made(text, part, lambda at: edits.without_argument(at, "b")) == expected


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("out", "out.clone()"), ("self.out[0]", "self.out[0].clone()"), ("a + b", "(a + b).clone()"),
        ("-a", "(-a).clone()"), ("f(x)", "f(x).clone()"), ("(a if b else c)", "(a if b else c).clone()"),
        ("await x", "(await x).clone()"), ("1", "(1).clone()"), ("[a]", "[a].clone()"),
    ],
)  # fmt: skip
def test_a_method_is_called_on_an_expression(part: str, expected: str) -> None:
    source = f"async def f():\n    kept.append({part})\n"
    assert made(source, part if part not in ("a", "1", "x") else f"({part})", lambda at: edits.method(
        Location(at.path, at.span) if part not in ("a", "1", "x") else Location(
            at.path, Span(at.span.line, at.span.column + 1, at.span.end_line, at.span.end_column - 1)
        ), "clone()")) == f"async def f():\n    kept.append({expected})\n"  # fmt: skip


def test_statements_before_and_behind() -> None:
    text = "def f():\n    x = g(\n        1,\n    )  # why\n    with a:\n        y\n"
    assert made(text, "1", lambda at: edits.before(at, "a = 1", "if a:", "    b")) == (
        "def f():\n    a = 1\n    if a:\n        b\n" + text[9:]
    )
    assert made(text, "1", lambda at: edits.after(at, "a = 1")) == text.replace("# why\n", "# why\n    a = 1\n")
    assert made(text, "a:", lambda at: edits.before(at, "z")) == text.replace("    with", "    z\n    with")
    assert made(text, "a:", lambda at: edits.after(at, "z")) is None, "behind a header is inside the body"


def test_a_statement_is_rewritten() -> None:
    text = "class A:\n    def f(self):\n        self.x = new  # refresh\n"
    new = made(text, "self.x", lambda at: edits.rewrite(at, "self.x.copy_(new)", "y()"))
    assert new == text.replace("self.x = new", "self.x.copy_(new)\n        y()")


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("a\nprint(x)\nb\n", "print(x)", "a\nb\n"),
        ("if a:\n    print(x)\nb\n", "print(x)", "if a:\n    pass\nb\n"),
        ("if a:\n    print(x)\n    c\nb\n", "print(x)", "if a:\n    c\nb\n"),
        ("if a: print(x)\nb\n", "print(x)", "if a: pass\nb\n"),
        ("print(\n    x\n)\n\nb\n", "print(\n    x\n)", "\nb\n"),
        ("print(x)  # why\nb\n", "print(x)", "b\n"),
        ("print(x); y\nb\n", "print(x)", "pass; y\nb\n"),
        ("y; print(x)\nb\n", "print(x)", "y; pass\nb\n"),
        ("for a in b: print(x); y\nb\n", "print(x)", "for a in b: pass; y\nb\n"),
    ],
)
def test_a_statement_goes(text: str, part: str, expected: str) -> None:
    assert made(text, part, edits.delete) == expected


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("x = new; g()\n", "x = new", "x.copy_(new); g()\n"),
        ("g(); x = new  # now\n", "new", "g(); x.copy_(new)  # now\n"),
        ("if c: x = new\n", "x = new", "if c: x.copy_(new)\n"),
        ("for p in q: a(); x = new\n", "x = new", "for p in q: a(); x.copy_(new)\n"),
    ],
)
def test_a_statement_is_rewritten_on_a_line_with_others(text: str, part: str, expected: str) -> None:
    assert made(text, part, lambda at: edits.rewrite(at, "x.copy_(new)")) == expected
    assert made(text, part, lambda at: edits.rewrite(at, "x.copy_(new)", "y()")) is None, "there is no room for two"
    assert made(text, part, lambda at: edits.wrap(at, ["if c:"])) is None


def test_lines_go_where_their_order_is_kept() -> None:
    two = "load(); replay()\n"
    assert made(two, "load()", lambda at: edits.before(at, "w()")) == "w()\nload(); replay()\n"
    assert made(two, "replay()", lambda at: edits.before(at, "w()")) is None, "it would run before load()"
    assert made(two, "replay()", lambda at: edits.after(at, "w()")) == "load(); replay()\nw()\n"
    assert made(two, "load()", lambda at: edits.after(at, "w()")) is None
    inside = "with graph(g): y = f()\n"
    assert made(inside, "graph(g)", lambda at: edits.before(at, "w()")) == "w()\nwith graph(g): y = f()\n"
    assert made(inside, "y = f()", lambda at: edits.before(at, "w()")) is None
    assert made(inside, "y = f()", lambda at: edits.after(at, "w()")) is None


def test_blocks_are_wrapped_dropped_and_unwrapped_with_their_comments() -> None:
    loop = "def f():\n    for a in b:  # each\n        c(a)\n        # why\n        d()\n    e()\n"
    wrapped = made(loop, "for a", lambda at: edits.wrap(at, ["s = g()", "with s:"], ["j()"]))
    assert wrapped == (
        "def f():\n    s = g()\n    with s:\n        for a in b:  # each\n            c(a)\n            # why\n"
        "            d()\n    j()\n    e()\n"
    )
    assert made(loop, "for a", edits.drop_block) == "def f():\n    # each\n    # why\n    e()\n"
    assert made(loop, "for a", edits.unwrap) == "def f():\n    # each\n    c(a)\n    # why\n    d()\n    e()\n"
    alone = "def f():\n    if a:\n        return b\n"
    assert made(alone, "if a", edits.drop_block) == "def f():\n    pass\n"
    text = 'for a in b:\n    c("""\n  text\n""")\n'
    assert made(text, "for a", lambda at: edits.wrap(at, ["with s:"])) is None, "the text would change"
    assert made("for a in b:\n    c\nelse:\n    d\n", "for a", lambda at: edits.wrap(at, ["with s:"])) is None


def test_a_statement_moves_with_its_comment() -> None:
    text = "a()\nwith g:\n    b()  # why\n    c()\nd()\n"
    source = Source(Path("/a.py"), text)
    with edits.reading(lambda path: source):
        out = edits.move(locate(text, "b()"), locate(text, "with g:"))
        behind = edits.move_behind(locate(text, "c()"), locate(text, "with g:"))
    assert rewrite(source, [e for e in out if e is not None]) == "a()\nb()  # why\nwith g:\n    c()\nd()\n"
    assert rewrite(source, [e for e in behind if e is not None]) == "a()\nwith g:\n    b()  # why\nc()\nd()\n"


def test_names_are_found_where_they_are_variables() -> None:
    text = "def f(n):\n    x = a.n[n] + g(n=1, m=n)  # n\n    return n\n"
    source = Source(Path("/a.py"), text)
    with edits.reading(lambda path: source):
        found = [at.span.column for at, name in edits.names(locate(text, text[10:].rstrip("\n"))) if name == "n"]
    assert found == [13, 27, 12]


def test_what_cannot_be_edited_gives_none() -> None:
    assert made("x = y\n", "y", lambda at: edits.argument(at, "a", "1")) is None
    assert made("x = f(y)\n", "f(y", lambda at: edits.argument(at, "a", "1")) is None
    assert made("x = y\n", "y", lambda at: edits.replace(at, "(")) is None
    missing = Location("/nowhere/a.py", Span(1, 1, 1, 2))
    assert edits.text(missing) == "" and edits.before(missing, "x") is None
    assert edits.fix("t", edits.replace(missing, "y"), safe=True) is None


def test_the_text_is_the_programs() -> None:
    """An unsaved buffer, not the file on disk, is what an editor's fix is made for."""
    buffer = Source(Path("/a.py"), "x = 1\n")
    with edits.reading(lambda path: buffer):
        assert edits.text(Location("/a.py", Span(1, 5, 1, 6))) == "1"
