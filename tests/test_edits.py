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
        ("if a: print(x)\nb\n", "print(x)", None),
        ("print(\n    x\n)\n\nb\n", "print(\n    x\n)", "\nb\n"),
        ("print(x)  # why\nb\n", "print(x)", "b\n"),
        ("print(x); y\nb\n", "print(x)", "b\n"),
    ],
)
def test_a_statement_goes(text: str, part: str, expected: str | None) -> None:
    found = made(text, part, edits.delete)
    assert found == expected or (expected is None and found is not None and "if a" not in found)


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
