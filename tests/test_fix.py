"""Text edits: whole fixes or none, right to left, in the file's own encoding and line ends, only into what was read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphlint import fix
from graphlint.finding import Edit, Finding, Fix
from graphlint.source import Location, Source, Span


def edit(path: str, line: int, column: int, end: int, text: str) -> Edit:
    return Edit(path, Span(line, column, line, end), text)


def finding(*edits: Edit, safe: bool = True, line: int = 1) -> Finding:
    at = Location(edits[0].path, Span(line, 1, line, 2))
    return Finding("host-sync", "GL001", "error", at, "m", fix=Fix("do it", tuple(edits), safe))


def run(path: Path, *findings: Finding, unsafe: bool = False) -> list[fix.Change | fix.FixError]:
    digests = {str(path): fix.digest(Source.read(path).text)}
    return list(fix.changes(findings, digests, unsafe=unsafe))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_encoding_line_ends_and_bom_are_kept(tmp_path: Path, end: bytes, bom: bytes) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(bom + end.join([b"x = 'h\xc3\xa9'; y = 1", b"z = 2", b""]))
    (change,) = run(path, finding(edit(str(path), 1, 15, 16, "3\nw = 4")))
    assert isinstance(change, fix.Change)
    fix.write(change)
    assert path.read_bytes() == bom + end.join([b"x = 'h\xc3\xa9'; y = 3", b"w = 4", b"z = 2", b""])


def test_a_coding_cookie_is_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\nx = '\xe9'; y = 1\n")
    (change,) = run(path, finding(edit(str(path), 2, 14, 15, "2")))
    assert isinstance(change, fix.Change)
    fix.write(change)
    assert path.read_bytes() == b"# coding: latin-1\nx = '\xe9'; y = 2\n"


def test_text_that_the_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: ascii\nx = 1\n")
    (change,) = run(path, finding(edit(str(path), 2, 5, 6, "'\u65e5'")))
    assert isinstance(change, fix.Change)
    with pytest.raises(fix.FixError, match="ascii cannot hold"):
        fix.write(change)
    assert path.read_bytes() == b"# coding: ascii\nx = 1\n"


def test_a_file_that_changed_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    found = finding(edit(str(path), 1, 5, 6, "2"))
    digests = {str(path): fix.digest("x = 1\n")}
    path.write_text("x = 9\n")
    (error,) = fix.changes([found], digests, unsafe=False)
    assert isinstance(error, fix.FixError) and "changed since" in str(error)


def test_a_file_that_changes_between_plan_and_write_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    (change,) = run(path, finding(edit(str(path), 1, 5, 6, "2")))
    path.write_text("x = 9\n")
    assert isinstance(change, fix.Change)
    with pytest.raises(fix.FixError, match="changed since"):
        fix.write(change)
    assert path.read_text() == "x = 9\n"
    assert os.listdir(tmp_path) == ["a.py"]


def test_permissions_and_symlinks_are_kept(tmp_path: Path) -> None:
    real, link = tmp_path / "real.py", tmp_path / "link.py"
    real.write_text("x = 1\n")
    real.chmod(0o750)
    link.symlink_to(real)
    (change,) = run(link, finding(edit(str(link), 1, 5, 6, "2")))
    assert isinstance(change, fix.Change)
    fix.write(change)
    assert link.is_symlink() and real.read_text() == "x = 2\n"
    assert stat.S_IMODE(real.stat().st_mode) == 0o750


def test_of_two_fixes_that_clash_the_first_is_made_and_none_by_halves(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("aaaa\nbbbb\n")
    first = finding(edit(str(path), 1, 1, 3, "X"), line=1)
    second = finding(edit(str(path), 1, 2, 4, "Y"), edit(str(path), 2, 1, 2, "Y"), line=2)
    (change,) = run(path, first, second)
    assert isinstance(change, fix.Change) and (change.new, change.fixes) == ("Xaa\nbbbb\n", 1)


def test_an_edit_that_two_fixes_share_is_made_once_and_cures_both(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("Adam(p)\n")
    shared = edit(str(path), 1, 7, 7, ", capturable=True")
    (change,) = run(path, finding(shared, line=1), finding(shared, Edit(str(path), Span(2, 1, 2, 1), "x\n"), line=2))
    assert isinstance(change, fix.Change) and (change.new, change.fixes) == ("Adam(p, capturable=True)\nx\n", 2)


def test_unsafe_fixes_need_to_be_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    found = finding(edit(str(path), 1, 5, 6, "2"), safe=False)
    assert run(path, found) == []
    assert len(run(path, found, unsafe=True)) == 1


def test_a_fix_that_would_break_the_syntax_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    (error,) = run(path, finding(edit(str(path), 1, 5, 6, "(")))
    assert isinstance(error, fix.FixError) and "break the syntax" in str(error)


def test_a_span_outside_the_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert run(path, finding(edit(str(path), 7, 1, 1, "y"))) == []
    assert run(path, finding(edit(str(path), 1, 50, 51, "y"))) == []


def test_a_read_only_file_is_said_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    (change,) = run(path, finding(edit(str(path), 1, 5, 6, "2")))
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert isinstance(change, fix.Change)
    with pytest.raises(fix.FixError, match="read-only"):
        fix.write(change)


def test_the_diff_can_be_applied(tmp_path: Path) -> None:
    import subprocess

    path = tmp_path / "a.py"
    path.write_text("a = 1\nb = 2")
    (change,) = run(path, finding(edit(str(path), 2, 5, 6, "3")))
    assert isinstance(change, fix.Change)
    (tmp_path / "p.diff").write_text(fix.diff(change, "a.py"))
    subprocess.run(["git", "apply", "p.diff"], cwd=tmp_path, check=True)
    assert path.read_text() == "a = 1\nb = 3"


@given(st.text(alphabet="ab\r\n\u65e5\f", max_size=40), st.data())
def test_edits_that_replace_text_by_itself_change_nothing(text: str, data: st.DataObject) -> None:
    source = Source(Path("a.py"), text)
    line = data.draw(st.integers(1, len(source.lines)))
    start = data.draw(st.integers(0, len(source.lines[line - 1])))
    stop = data.draw(st.integers(start, len(source.lines[line - 1])))
    same = Edit("a.py", Span(line, start + 1, line, stop + 1), source.lines[line - 1][start:stop])
    assert fix.rewrite(source, [same]) == text
