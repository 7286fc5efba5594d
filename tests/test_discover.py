"""Which files are checked: as git has it, each once, whatever lies in the way."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from graphlint.program.discover import discover, project_root


def names(root: Path, *paths: Path, **options: object) -> list[str]:
    found, errors = discover(list(paths) or [root], **options)  # type: ignore[arg-type]
    assert errors == []
    return [path.relative_to(root).as_posix() for path in found]


def make(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_python_files_sorted_and_once(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a/c.py", "a/d.txt", "a/e.pyi", "n.ipynb", "a.py")
    assert names(tmp_path) == ["a.py", "a/c.py", "b.py", "n.ipynb"]
    assert names(tmp_path, tmp_path / "a", tmp_path, tmp_path / "a" / ".." / "b.py") == [
        "a.py",
        "a/c.py",
        "b.py",
        "n.ipynb",
    ]


def test_a_named_file_is_always_taken(tmp_path: Path) -> None:
    make(tmp_path, "build/x.py", "script")
    assert names(tmp_path, tmp_path / "build/x.py", tmp_path / "script") == ["build/x.py", "script"]


def test_default_excludes(tmp_path: Path) -> None:
    make(
        tmp_path, "ok.py", ".git/x.py", "venv/x.py", "node_modules/x.py", "a/build/x.py", "dist/x.py",
        "__pycache__/x.py", "lib/site-packages/x.py", "myenv/pyvenv.cfg", "myenv/x.py", ".tox/x.py", "builder/y.py",
    )  # fmt: skip
    assert names(tmp_path) == ["builder/y.py", "ok.py"]
    assert "a/build/x.py" in names(tmp_path, exclude=())
    assert names(tmp_path, exclude=("*/build", "build*", "[dnv.]*")) == ["ok.py"]


def test_own_excludes_are_globs_from_the_project_root(tmp_path: Path) -> None:
    make(tmp_path, "pyproject.toml", "tests/data/a.py", "tests/a.py", "src/data/b.py", "src/gen_x.py")
    assert names(tmp_path, exclude=("tests/data", "gen_*")) == ["src/data/b.py", "tests/a.py"]
    assert names(tmp_path, tmp_path / "tests", exclude=("tests/data",)) == ["tests/a.py"]
    assert names(tmp_path, tmp_path / "tests/data", exclude=("tests/data",)) == ["tests/data/a.py"]


def test_ignore_files_nest(tmp_path: Path) -> None:
    make(
        tmp_path,
        ".git/info/exclude",
        "a.py",
        "local.py",
        "out/x.py",
        "sub/keep.py",
        "sub/gen/g.py",
        "sub/gen/kept.py",
        "sub/a.py",
    )
    (tmp_path / ".git/info/exclude").write_text("local.py\n")
    (tmp_path / ".gitignore").write_text("# comment\nout/\nkeep.py\n/a.py\n")
    (tmp_path / "sub/.gitignore").write_text("!keep.py\ngen/*\n!gen/kept.py\n")
    assert names(tmp_path) == ["sub/a.py", "sub/gen/kept.py", "sub/keep.py"]
    assert names(tmp_path, tmp_path / "sub") == ["sub/a.py", "sub/gen/kept.py", "sub/keep.py"]
    assert names(tmp_path, tmp_path / "out") == ["out/x.py"]
    everything = ["a.py", "local.py", "out/x.py", "sub/a.py", "sub/gen/g.py", "sub/gen/kept.py", "sub/keep.py"]
    assert names(tmp_path, respect_gitignore=False) == everything


def test_a_broken_ignore_file_ignores_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_bytes(b"!\n\xff\xfe\n[\nb.py\n")
    assert "a.py" in names(tmp_path)


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    found, errors = discover([tmp_path / "gone", tmp_path / "a.py", Path("nul\0byte")])
    assert found == [tmp_path / "a.py"]
    assert sorted(message for _, message in errors) == ["no such file or directory"] * 2


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_loop_and_links_that_dangle(tmp_path: Path) -> None:
    make(tmp_path, "a/x.py")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to("self")
    (tmp_path / "a/gone.py").symlink_to("nowhere.py")
    (tmp_path / "twice").symlink_to(tmp_path / "a")
    found, errors = discover([tmp_path])
    assert [os.path.realpath(path) for path in found].count(str(tmp_path / "a/x.py")) == 1
    assert errors == []


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser reads everything")
def test_unreadable_folders_are_errors(tmp_path: Path) -> None:
    make(tmp_path, "a.py", "closed/b.py")
    (tmp_path / "closed").chmod(0)
    found, errors = discover([tmp_path])
    (tmp_path / "closed").chmod(0o755)
    assert found == [tmp_path / "a.py"] and errors == [(tmp_path / "closed", "cannot be read: Permission denied")]


def test_project_root(tmp_path: Path) -> None:
    make(tmp_path, "repo/pyproject.toml", "repo/a/b/c.py", "loose/x.py")
    assert project_root(tmp_path / "repo/a/b/c.py") == tmp_path / "repo"
    assert project_root(tmp_path / "repo/a") == tmp_path / "repo"
    assert project_root(tmp_path / "loose/x.py") == tmp_path / "loose"
