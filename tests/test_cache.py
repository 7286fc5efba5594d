"""The cache answers as the analysis would, and whatever happens to its files, never otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from graphlint import cache, engine
from graphlint.config import Config
from graphlint.engine import Report, check
from graphlint.registry import load_rules
from tests.helpers import CAPTURE, RULE, rule_folder


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rule_folder(tmp_path)
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.graphlint]\n")
    (folder / "step.py").write_text(CAPTURE)
    (folder / "other.py").write_text("x = 1\n")
    for path in folder.iterdir():
        old(path)
    return folder


def old(path: Path) -> None:
    """A time that the cache trusts: long before any entry is written."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - 60_000_000_000))


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one with each analysis."""
    counted: list[int] = []
    original: Callable[..., engine.Raw] = engine.analyse

    def counting(*args: object) -> engine.Raw:
        counted.append(1)
        return original(*args)

    monkeypatch.setattr(engine, "analyse", counting)
    return counted


def run(folder: Path, *paths: str, use: bool = True, **settings: object) -> Report:
    registry = load_rules([folder.parent / "own_rules"])
    config = Config(root=folder, file=folder / "pyproject.toml", **settings)  # type: ignore[arg-type]
    return check([folder / p for p in paths] or [folder], config, registry=registry, cache=use)


def entries(folder: Path) -> list[Path]:
    return sorted((folder / cache.FOLDER).glob("*.json"))


def test_the_same_answer_with_and_without_and_only_one_analysis(project: Path, runs: list[int]) -> None:
    plain = run(project, use=False)
    first, second = run(project), run(project)
    assert plain == first == second and plain.findings
    assert len(runs) == 2


def test_targets_selection_and_severity_need_no_new_analysis(project: Path, runs: list[int]) -> None:
    run(project)
    assert run(project, "other.py").findings == ()
    assert [f.rule for f in run(project, "step.py", select=("host-read",)).findings] == ["host-read"]
    assert {f.severity for f in run(project, severity=(("host-read", "note"), ("host-sync", "note"))).findings} == {
        "note"
    }
    assert len(runs) == 1, "a folder and a file of one project have one scope"


@pytest.mark.parametrize(
    "change",
    [
        lambda p: (p / "step.py").write_text(CAPTURE.replace("print(total.item())", "total.mean()")),
        lambda p: (p / "new.py").write_text("y = 2\n"),
        lambda p: (p / "other.py").unlink(),
        lambda p: (p.parent / "own_rules/usr001_host_read/rule.py").write_text(RULE.replace("waits", "stalls") + "\n"),
    ],
    ids=["content", "new file", "file gone", "rule"],
)
def test_any_change_is_seen(project: Path, runs: list[int], change: Callable[[Path], object]) -> None:
    before = run(project)
    change(project)
    after = run(project)
    assert after == run(project, use=False)
    assert after != before or len(runs) <= 3


def test_a_change_that_keeps_time_and_size_is_seen_if_the_file_is_young(project: Path, runs: list[int]) -> None:
    path = project / "step.py"
    path.write_text(CAPTURE)
    assert "host-read" in {f.rule for f in run(project).findings}
    stat = path.stat()
    path.write_text(CAPTURE.replace("print(total.item())", "total.abs().mean() "))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "host-read" not in {f.rule for f in run(project).findings}
    assert len(runs) == 2


def test_a_file_that_was_only_touched_needs_no_new_analysis(project: Path, runs: list[int]) -> None:
    run(project)
    os.utime(project / "step.py")
    run(project)
    assert len(runs) == 1


def test_configuration_that_changes_the_analysis_is_part_of_the_key(project: Path, runs: list[int]) -> None:
    run(project)
    run(project, torch_version=(2, 12))
    run(project, trusted=("m.f",))
    assert len(runs) == 3


def damaged(data: bytes) -> list[bytes]:
    return [b"", data[:10], data[:-1], data[:40] + b"X" + data[41:], data[32:], os.urandom(200), b"[" * 100_000]


@pytest.mark.parametrize("number", range(7))
def test_a_damaged_entry_is_not_believed(project: Path, runs: list[int], number: int) -> None:
    expected = run(project)
    (path,) = entries(project)
    path.write_bytes(damaged(path.read_bytes())[number])
    assert run(project) == expected
    assert len(runs) == 2
    run(project)
    assert len(runs) == 2, "the entry was written anew"


def test_an_entry_that_came_with_a_repository_is_not_believed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could hide findings, or carry a fix that writes where nobody asked."""
    run(project)
    (path,) = entries(project)
    body = path.read_bytes()[32:].replace(b"makes the host wait", b"is perfectly harmless")
    forged = cache._seal(body, b"another user's key".ljust(32))
    path.write_bytes(forged + body)
    assert "harmless" not in str(run(project).findings)


def test_pickle_is_nowhere() -> None:
    for path in Path(cache.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text and "import marshal" not in text and "import shelve" not in text, path


def test_folders_that_cannot_be_written_are_no_trouble(
    project: Path, runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / cache.FOLDER).write_text("a file in the way")
    assert run(project).findings
    (project / cache.FOLDER).unlink()
    (project / cache.FOLDER).symlink_to(project.parent / "elsewhere")
    assert run(project).findings and not (project.parent / "elsewhere").exists()
    (project / cache.FOLDER).unlink()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert run(project).findings and not (project / cache.FOLDER).exists()
    assert len(runs) == 3


def test_git_leaves_the_folder_alone(project: Path) -> None:
    run(project)
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    listed = subprocess.run(["git", "status", "--porcelain", "-uall"], cwd=project, capture_output=True, text=True)
    assert cache.FOLDER not in listed.stdout


def test_concurrent_runs_agree(project: Path) -> None:
    command = [sys.executable, "-m", "graphlint", ".", "--rule-folder", "../own_rules", "-f", "json"]
    made: list[str] = []

    def one() -> None:
        done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120)
        made.append(done.stdout)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1 and json.loads(made[0])["findings"]
    assert len(entries(project)) == 1 and not list((project / cache.FOLDER).glob("*.tmp"))


def test_old_entries_go(project: Path) -> None:
    folder = project / cache.FOLDER
    cache.prepare(folder)
    for number in range(60):
        (folder / f"{number}.json").write_text("x")
    run(project)
    assert len(entries(project)) <= 25


HELPER = "def show(t):\n    return t.sum()\n"


@pytest.mark.parametrize(
    ("text", "analyses"),
    [
        ("x = 3\n", 1),
        ("def broken(:\n", 1),
        ("import torch\ng = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    torch.ones(3).cuda().item()\n", 2),
    ],
    ids=["irrelevant", "broken", "a capture"],
)
def test_a_change_that_cannot_matter_costs_no_analysis(
    project: Path, runs: list[int], text: str, analyses: int
) -> None:
    run(project)
    (project / "other.py").write_text(text)
    changed = run(project)
    assert len(runs) == analyses
    assert changed == run(project, use=False)
    count = len(runs)
    assert run(project) == changed and len(runs) == count, "and it is remembered"


def test_a_change_in_what_a_capture_runs_is_always_seen(project: Path) -> None:
    (project / "helper.py").write_text(HELPER)
    (project / "step.py").write_text("from helper import show\n" + CAPTURE.replace("print(total.item())", "show(x)"))
    assert not [f for f in run(project).findings if f.rule == "host-read"]
    (project / "helper.py").write_text(HELPER.replace("sum()", "sum().item()"))
    assert [f.at.line for f in run(project).findings if f.rule == "host-read"] == [2]


def test_a_new_caller_of_what_captures_is_seen(project: Path, runs: list[int]) -> None:
    """It was not opened before; the names that it mentions tell that it matters."""
    (project / "step.py").write_text(
        "import torch\n\n\ndef record_graph(f, x):\n    g = torch.cuda.CUDAGraph()\n    f(x)\n"
        "    with torch.cuda.graph(g):\n        f(x)\n    return g\n"
    )
    run(project)
    (project / "other.py").write_text(
        "import torch\nfrom step import record_graph\n\n\ndef read(x):\n    return x.sum().item()\n\n\n"
        "record_graph(read, torch.ones(3, device='cuda'))\n"
    )
    assert [f.at.line for f in run(project).findings if f.rule == "host-read"] == [6]
    assert run(project) == run(project, use=False)
