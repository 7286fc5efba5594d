"""Whatever stands in a file: one clear line for it, everything else still checked, no hang, nothing run."""

from __future__ import annotations

import ast
import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphlint.config import Config
from graphlint.engine import Report, check
from graphlint.registry import load_rules
from tests.helpers import CAPTURE

ROOT = Path(__file__).parent.parent
REGISTRY = load_rules()
GOOD = ("host-sync", "good.py", 8)


def run(folder: Path) -> Report:
    return check([folder], Config(root=folder), registry=REGISTRY)


def lines(report: Report, folder: Path) -> dict[str, str]:
    """What was said of files that could not be checked, by name."""
    said = {os.path.relpath(e.path, folder): e.message for e in report.errors}
    assert all("\n" not in message for message in said.values())
    found = {os.path.relpath(f.at.path, folder) for f in report.findings if f.rule == "unreadable-file"}
    assert set(said) == found, "each is an entry in errors and a finding"
    return said


def goods(report: Report, folder: Path) -> list[tuple[str, str, int]]:
    return [
        (f.rule, os.path.relpath(f.at.path, folder), f.at.line)
        for f in report.findings
        if f.at.path.endswith("good.py")
    ]


BAD: dict[str, tuple[bytes, str]] = {
    "syntax error": (b"def f(:\n    pass\n", "syntax error"),
    "python 2": (b"print 'x'\nexec 'y'\n", "syntax error"),
    "unclosed": (b"x = (1,\n", "syntax error"),
    "indentation": (b"if x:\npass\n", "syntax error"),
    "tabs and spaces": (b"if x:\n\ty\n        z\n", "syntax error"),
    "nul bytes": (b"x = 1\0\n", "NUL bytes"),
    "unknown coding": (b"# coding: klingon\nx = 1\n", "encoding"),
    "wrong coding": (b"x = '\xff'\n", "encoding|decoded"),
    "utf-16": ("x = 1\n".encode("utf-16"), "NUL bytes|encoding"),
    "binary": (bytes(range(256)) * 10, "NUL bytes"),
    "too large": (b"x = 1\n" * 900_000, "larger than 5 MB"),
    "nested brackets": (b"x = " + b"(" * 5000 + b")" * 5000 + b"\n", "nested too deeply|too many nested"),
    "merge conflict": (b"<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> b\n", "syntax error"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_one_clear_line_and_the_others_are_checked(tmp_path: Path, kind: str) -> None:
    import re

    data, said = BAD[kind]
    (tmp_path / "bad.py").write_bytes(data)
    (tmp_path / "good.py").write_text(CAPTURE)
    report = run(tmp_path)
    assert list(lines(report, tmp_path)) == ["bad.py"]
    assert re.search(said, lines(report, tmp_path)["bad.py"])
    assert GOOD in goods(report, tmp_path)


FINE: dict[str, bytes] = {
    "empty": b"",
    "bom": b"\xef\xbb\xbf" + CAPTURE.encode(),
    "crlf": CAPTURE.replace("\n", "\r\n").encode(),
    "cr": CAPTURE.replace("\n", "\r").encode(),
    "form feeds": CAPTURE.replace("g.replay", "\x0cg.replay").encode(),
    "latin-1": b"# coding: latin-1\nname = '\xe9'\n" + CAPTURE.encode(),
    "no newline at the end": CAPTURE.rstrip().encode(),
    "deep sum": b"x = 1" + b" + 1" * 4000 + b"\n",
    "deep attribute": b"x = a" + b".b" * 4000 + b"\n",
    "deep call": b"x = a" + b"()" * 4000 + b"\n",
    "long line": b"x = [" + b"1, " * 100_000 + b"]\n",
    "invalid escape": b"x = '\\d'\n",
    "only comments": b"# x\n" * 10_000,
}


@pytest.mark.parametrize("kind", FINE)
def test_unusual_but_valid_files_are_checked(tmp_path: Path, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.py").write_bytes(FINE[kind])
    (tmp_path / "good.py").write_text(CAPTURE)
    report = run(tmp_path)
    said = lines(report, tmp_path)
    assert said == {} or (kind.startswith("deep") and all("nested" in message for message in said.values()))
    assert GOOD in goods(report, tmp_path)
    if b"cuda.graph" in FINE[kind]:
        assert any(f.rule == "host-sync" and f.at.path.endswith("odd.py") for f in report.findings)
    assert capfd.readouterr().err == "", "no warning of the parser gets through"


def test_a_capture_nested_five_thousand_deep_does_not_end_the_run(tmp_path: Path) -> None:
    deep = CAPTURE.replace("print(total.item())", "y = x" + " + x" * 5000)
    (tmp_path / "deep.py").write_text(deep)
    (tmp_path / "good.py").write_text(CAPTURE)
    assert GOOD in goods(run(tmp_path), tmp_path)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(CAPTURE)
    (tmp_path / "bad.py").chmod(0)
    (tmp_path / "good.py").write_text(CAPTURE)
    report = run(tmp_path)
    assert "cannot be read" in lines(report, tmp_path)["bad.py"] and GOOD in goods(report, tmp_path)


def test_links_to_nowhere_and_in_circles(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(CAPTURE)
    (tmp_path / "dead.py").symlink_to("nowhere.py")
    (tmp_path / "self.py").symlink_to("self.py")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "folder.py").mkdir()
    report = run(tmp_path)
    assert set(lines(report, tmp_path)) <= {"dead.py", "self.py"}
    assert goods(report, tmp_path) == [GOOD]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
def test_a_named_pipe_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(CAPTURE)
    os.mkfifo(tmp_path / "pipe.py")
    report = run(tmp_path)
    assert lines(report, tmp_path) == {} and goods(report, tmp_path) == [GOOD]


def test_a_file_that_vanishes_while_it_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import graphlint.scope as scope

    (tmp_path / "good.py").write_text(CAPTURE)
    (tmp_path / "gone.py").write_text(CAPTURE)
    original = scope.find_scope

    def found(*args: object) -> scope.Scope:
        made = original(*args)  # type: ignore[arg-type]
        (tmp_path / "gone.py").unlink()
        return made

    monkeypatch.setattr(scope, "find_scope", found)
    report = run(tmp_path)
    assert "cannot be read" in lines(report, tmp_path)["gone.py"] and GOOD in goods(report, tmp_path)


def test_names_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(CAPTURE)
    try:
        with open(os.fsencode(tmp_path) + b"/caf\xe9.py", "wb") as file:
            file.write(CAPTURE.encode())
    except OSError:
        pytest.skip("this file system wants UTF-8")
    from graphlint.report import FORMATS, render
    from graphlint.report.view import View

    report = run(tmp_path)
    assert sum(f.rule == "host-sync" for f in report.findings) >= 2
    for name in FORMATS:
        render(name, report, View(str(tmp_path), "0", REGISTRY.by_name, root=str(tmp_path))).encode("utf-8")


def test_two_modules_of_one_name_import_cycles_and_recursion(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "util.py").write_text(f"import util2\ndef f(x):\n    return x.{folder}()\n")
        (tmp_path / folder / "util2.py").write_text("from util import f\n")
    (tmp_path / "cycle_one.py").write_text("from cycle_two import *\nfrom cycle_two import g\nclass A(A): pass\n")
    (tmp_path / "cycle_two.py").write_text("from cycle_one import *\nfrom cycle_one import g\nclass B(B): pass\n")
    (tmp_path / "good.py").write_text(
        CAPTURE.replace("    print", "    again(total)\n    print").replace(
            "import torch\n", "import torch; import util; from cycle_one import g as h\n"
        )
        + "\n\ndef again(x):\n    odd(x)\n    return again(again(x))\n"
        + "\n\ndef odd(x):\n    return again(x) if h(x) else util.f(x)\n"
    )
    report = run(tmp_path)
    assert lines(report, tmp_path) == {}
    assert ("host-sync", "good.py", 9) in goods(report, tmp_path)


def test_an_endless_program_ends(tmp_path: Path) -> None:
    body = "".join(f"    x = f{i}(f{i}(x), f{i}(x))\n" for i in range(12))
    functions = "".join(
        f"def f{i}(x, y=None):\n    while x:\n        x = f{(i + 1) % 12}(x, [x] * 9)\n    return f{(i + 5) % 12}(x)\n"
        for i in range(12)
    )
    (tmp_path / "good.py").write_text(functions + CAPTURE.replace("    total", body + "    total"))
    report = run(tmp_path)
    assert all("budget" in e.message for e in report.errors)


# ------------------------------------------------------------------------------------------------------- fuzzing


def _pieces() -> list[str]:
    """Statements of real code: the rules' own examples, whole and by statement."""
    found = [CAPTURE]
    for path in sorted((ROOT / "rules").glob("*/*.py")):
        if path.name.startswith(("bad_", "good_")):
            text = path.read_text(encoding="utf-8")
            found += [text, *(ast.unparse(node) for node in ast.parse(text).body)]
    return found


PIECES = _pieces()


def _mutated(text: str, seed: int) -> str:
    """Lines dropped, doubled, moved, indented, and characters replaced."""
    chance = random.Random(seed)
    rows = text.splitlines()
    for _ in range(chance.randint(1, 6)):
        if not rows:
            break
        at = chance.randrange(len(rows))
        kind = chance.randrange(6)
        if kind == 0:
            del rows[at]
        elif kind == 1:
            rows.insert(at, rows[chance.randrange(len(rows))])
        elif kind == 2:
            rows[at] = "    " * chance.randint(0, 3) + rows[at].strip()
        elif kind == 3:
            rows.insert(chance.randrange(len(rows)), rows.pop(at))
        elif rows[at]:
            place = chance.randrange(len(rows[at]))
            rows[at] = rows[at][:place] + chance.choice("()[]{}:,.*=@\\'\"#\t\x0c\0é ") + rows[at][place + 1 :]
    return "\n".join(rows)


sources = st.one_of(
    st.builds(_mutated, st.sampled_from(PIECES), st.integers(0, 1 << 30)),
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("\n".join),
    st.text(max_size=80),
)


@settings(
    max_examples=60, deadline=20_000, suppress_health_check=list(HealthCheck), derandomize=bool(os.environ.get("CI"))
)
@given(st.lists(sources, min_size=1, max_size=2))
def test_no_source_breaks_the_engine(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """No crash, no check that fails, every place inside its file; a broken file is named."""
    folder = tmp_path_factory.mktemp("fuzz")
    for number, text in enumerate(texts):
        (folder / f"m{number}.py").write_bytes(text.encode("utf-8", "surrogatepass"))
    (folder / "good.py").write_text(CAPTURE)
    report = run(folder)
    for error in report.errors:
        assert "please report it" not in error.message, error
    assert GOOD in goods(report, folder)
    for finding in report.findings:
        span = finding.at.span
        assert (1, 1) <= (span.line, span.column) <= (span.end_line, span.end_column)
        text = Path(finding.at.path).read_bytes()
        assert span.end_line <= text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1


@settings(max_examples=150, deadline=5_000, suppress_health_check=list(HealthCheck))
@given(st.one_of(sources, st.text(alphabet="#graphlint: ignore[]'\"\\\n\r\x0c(),-file", max_size=120)))
def test_no_source_breaks_suppressions(text: str) -> None:
    from graphlint import suppress
    from graphlint.fix import offsets
    from graphlint.source import Source

    source = Source(Path("a.py"), text)
    found = suppress.directives(source)
    for finding in suppress.own_findings(source, "a.py", found, REGISTRY.known, set(REGISTRY.by_name)):
        for edit in finding.fix.edits if finding.fix else ():
            offsets(source, edit.span)
