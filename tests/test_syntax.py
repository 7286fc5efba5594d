"""Files that do not parse are named, whoever looks for them."""

from __future__ import annotations

import os
import py_compile
from pathlib import Path

import pytest

from graphlint.syntax import Search, suspects, was_compiled


@pytest.fixture
def many(tmp_path: Path) -> list[str]:
    paths = []
    for number in range(400):
        path = tmp_path / f"m{number:03d}.py"
        path.write_text("x = 1\n" if number % 100 else "x = (\n")
        paths.append(str(path))
    (tmp_path / "n\u00fcl.py").write_bytes(b"x = '\0'\n")
    return [*paths, str(tmp_path / "n\u00fcl.py"), str(tmp_path / "gone.py")]


def test_the_same_files_for_any_number_of_jobs(many: list[str]) -> None:
    expected = [path for path in many if path[-7:] in ("000.py", "m000.py") or path.endswith("00.py")] + many[-2:]
    assert list(suspects(many)) == expected
    search = Search(many, jobs=2)
    assert search.process is not None and search.found() == expected
    assert Search(many, jobs=1).found() == expected
    assert Search(many, jobs=2).found({many[0]}) == expected[1:]


def test_a_process_that_fails_is_made_good(many: list[str]) -> None:
    search = Search(many, jobs=2)
    assert search.process is not None
    search.process.kill()
    assert search.found() == list(suspects(many))


def test_what_was_compiled_since_it_changed_parses(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert not was_compiled(str(path), {})
    py_compile.compile(str(path), doraise=True)
    assert was_compiled(str(path), {})
    stat = path.stat()
    path.write_text("x = (\n")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 2_000_000_000))
    assert not was_compiled(str(path), {}) and list(suspects([str(path)])) == [str(path)]
