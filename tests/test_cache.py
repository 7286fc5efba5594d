"""The cache answers as the analysis would, and whatever happens to its files, never otherwise."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from graphlint import cache, driver, engine, interp, sealed
from graphlint.config import Config
from graphlint.engine import Report, check
from graphlint.interp.sites import Root
from graphlint.registry import load_rules
from graphlint.runs import Judged, Run
from graphlint.scope import find_scope
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


def files(folder: Path) -> list[Path]:
    """The entries, and what is known of single roots."""
    return [*entries(folder), *(folder / cache.FOLDER).glob("*.runs")]


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
    young = time.time_ns() + 600_000_000_000  # for as long as the slowest machine takes
    path.write_text(CAPTURE)
    os.utime(path, ns=(young, young))
    assert "host-read" in {f.rule for f in run(project).findings}
    path.write_text(CAPTURE.replace("print(total.item())", "total.abs().mean() "))
    os.utime(path, ns=(young, young))
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
    assert len(files(project)) == 2
    for path in files(project):
        path.write_bytes(damaged(path.read_bytes())[number])
    assert run(project) == expected
    assert len(runs) == 2
    run(project)
    assert len(runs) == 2, "the entry was written anew"


def test_an_entry_that_came_with_a_repository_is_not_believed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could hide findings, or carry a fix that writes where nobody asked."""
    run(project)
    for path in files(project):
        body = zlib.decompress(path.read_bytes()[32:]).replace(b"makes the host wait", b"is perfectly harmless")
        body = zlib.compress(body)
        path.write_bytes(sealed.seal(body, b"another user's key".ljust(32)) + body)
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
    sealed.prepare(folder)
    for number in range(60):
        (folder / f"{number}.json").write_text("x")
        (folder / f"{number}.runs").write_text("x")
    run(project)
    assert len(entries(project)) <= 25 and len(files(project)) <= 50


HELPER = "def show(t):\n    return t.sum()\n"


@pytest.fixture
def followed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The file of every root that is followed."""
    names: list[str] = []
    original = driver.Driver.fresh_run

    def counting(self: driver.Driver, root: Root, configured: bool) -> Run:
        names.append(root.path.name)
        return original(self, root, configured)

    monkeypatch.setattr(driver.Driver, "fresh_run", counting)
    return names


@pytest.mark.parametrize(
    ("text", "roots"),
    [
        ("x = 3\n", []),
        ("def broken(:\n", []),
        (
            "import torch\ng = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(g):\n    torch.ones(3).cuda().item()\n",
            ["other.py"],
        ),
    ],
    ids=["irrelevant", "broken", "a capture"],
)
def test_a_change_costs_the_roots_that_it_can_matter_to(
    project: Path, runs: list[int], followed: list[str], text: str, roots: list[str]
) -> None:
    run(project)
    assert followed == ["step.py"]
    (project / "other.py").write_text(text)
    followed.clear()
    changed = run(project)
    assert followed == roots
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


def test_after_any_edit_it_says_what_an_analysis_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real programs of several files: lines come, go, and break; each time all that is reported is the same."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "examples"
    for name in ("quickstart", "training"):
        shutil.copytree(Path(__file__).parent.parent / "examples" / name, folder / name)
    for path in folder.rglob("*.py"):
        old(path)
    registry, config = load_rules(), Config(root=folder)
    choose = random.Random(7)
    check([folder], config, registry=registry, cache=True)
    for number in range(8):
        path = choose.choice(sorted(folder.rglob("*.py")))
        text = path.read_text()
        lines = text.split("\n")
        place = choose.randrange(len(lines))
        edits = {"shift": ["# a line"], "drop": [], "twice": lines[place : place + 1], "break": ["def (:"]}
        kind = choose.choice(sorted(edits))
        lines[place : place + (kind == "drop")] = edits[kind]
        path.write_text("\n".join(lines))
        kept = check([folder], config, registry=registry, cache=True)
        assert kept == check([folder], config, registry=registry), f"{number}: {kind} in {path.name}"
        path.write_text(text)


def test_files_that_come_and_go_are_seen_where_they_matter(project: Path, followed: list[str]) -> None:
    (project / "step.py").write_text(
        "from pkg.helper import show\n" + CAPTURE.replace("print(total.item())", "show(x)")
    )
    (project / "single.py").write_text(CAPTURE)
    run(project)
    (project / "pkg").mkdir()
    (project / "pkg" / "__init__.py").write_text("")
    (project / "pkg" / "helper.py").write_text(HELPER.replace("sum()", "sum().item()"))
    after = run(project)
    assert ("helper.py", 2) in {(Path(f.at.path).name, f.at.line) for f in after.findings}
    assert after == run(project, use=False)
    followed.clear()
    (project / "far").mkdir()
    (project / "far" / "unrelated.py").write_text("y = 1\n")
    assert run(project) == run(project, use=False)
    (project / "pkg" / "helper.py").unlink()
    assert run(project) == run(project, use=False)
    assert ("helper.py", 2) not in {(Path(f.at.path).name, f.at.line) for f in run(project).findings}


def test_a_new_subclass_elsewhere_is_seen(project: Path) -> None:
    """Nothing but its base's name leads from the capture to it."""
    (project / "base.py").write_text(
        "import torch\n\n\nclass Base:\n    def show(self, t):\n        raise NotImplementedError\n\n"
        "    def record(self):\n        x = torch.ones(8, device='cuda')\n        g = torch.cuda.CUDAGraph()\n"
        "        self.show(x)\n        with torch.cuda.graph(g):\n            self.show(x)\n"
    )
    run(project)
    (project / "other.py").write_text(
        "from base import Base\n\n\nclass Own(Base):\n    def show(self, t):\n        return t.sum().item()\n"
    )
    after = run(project)
    assert [Path(f.at.path).name for f in after.findings if f.rule == "host-read"] == ["other.py", "step.py"]
    assert after == run(project, use=False)


@pytest.mark.parametrize("name", ["quickstart", "compiled", "training"])
def test_roots_one_by_one_say_what_they_say_together(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(Path(__file__).parent.parent / "examples" / name, folder)
    shutil.copytree(folder, folder / "tests")
    registry, config = load_rules(), Config(root=folder)
    scope = find_scope([folder], config, {})
    program = scope.program()
    together = engine.deep(lambda: interp.analyse(program, config, config.settings, sorted(scope.targets)))
    findings, crashes = engine.judge(together.regions, registry.rules, program.source)
    raw = engine.deep(lambda: engine.analyse(scope, config, registry, sorted(scope.targets)))
    assert (list(raw.findings), crashes) == (findings, []) and findings
    assert list(raw.regions) == [engine.summary(region) for region in together.regions]


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_findings_are_the_same_for_any_number_of_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WORTH", 0)
    forked: list[int] = []
    fork = os.fork

    def counted() -> int:
        pid = fork()
        forked.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", counted)
    folder = tmp_path / "examples"
    shutil.copytree(Path(__file__).parent.parent / "examples" / "quickstart", folder)
    registry, config = load_rules(), Config(root=folder)
    alone = check([folder], config, registry=registry, jobs=1)
    assert alone.findings and not forked
    assert check([folder], config, registry=registry, jobs=4) == alone
    assert len(forked) >= 2


@pytest.mark.skipif(sys.platform != "linux", reason="forks")
def test_a_fork_that_dies_costs_nothing_but_time(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "WORTH", 0)
    expected, original, here = run(project, use=False), engine.judged, os.getpid()

    def dying(*args: object) -> Judged:
        if os.getpid() != here:
            os.kill(os.getpid(), 9)
        return original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "judged", dying)
    registry = load_rules([project.parent / "own_rules"])
    assert check([project], Config(root=project), registry=registry, jobs=3).findings == expected.findings
