"""The command line as a user meets it, each time in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from graphlint import __version__
from tests.helpers import CAPTURE, as_json, environment, graphlint, places, rule_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder `p` with one capture that reads on the host at `step.py:8`, and a rule beside it that says so."""
    rule_folder(tmp_path)
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "step.py").write_text(CAPTURE)
    return folder


OWN = ("--rule-folder", "../own_rules", "--select", "host-read,unreadable-file,unused-suppression,unknown-rule")


def test_check_is_the_default_command(project: Path) -> None:
    run = graphlint("step.py", *OWN, cwd=project)
    assert run.returncode == 1
    first = run.stdout.splitlines()[0]
    assert first == "step.py:8:11: error USR001[host-read] `total.item()` makes the host wait"
    assert run.stdout == graphlint("check", "step.py", *OWN, cwd=project).stdout
    assert run.stdout == graphlint(*OWN, cwd=project).stdout, "the current folder is the default"


def test_the_text_shows_the_code_and_the_way_from_the_capture(project: Path) -> None:
    rows = graphlint("step.py", *OWN, cwd=project).stdout.splitlines()
    assert "8 |     print(total.item())" in rows
    assert "  |           ^^^^^^^^^^^^" in rows
    assert any(r.startswith("  note: captured here: step.py:6:") for r in rows)


def test_the_json_is_as_agreed(project: Path) -> None:
    report = as_json("step.py", *OWN, "--show-regions", cwd=project)
    assert report["version"] == __version__
    (finding,) = report["findings"]
    keys = ("rule", "code", "severity", "path", "line", "column", "end_line", "end_column")
    assert {k: finding[k] for k in keys} == {
        "rule": "host-read", "code": "USR001", "severity": "error", "path": "step.py",
        "line": 8, "column": 11, "end_line": 8, "end_column": 23,
    }  # fmt: skip
    assert finding["trace"][0]["line"] == 6 and set(finding["trace"][0]) == {"path", "line", "message"}
    assert finding["fix"] is None
    (region,) = report["regions"]
    assert (region["kind"], region["path"], region["line"], region["applied_at"]) == ("graph", "step.py", 6, None)
    assert report["errors"] == []
    assert "regions" not in as_json("step.py", *OWN, cwd=project)


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (("step.py", *OWN), 1),
        (("step.py", *OWN, "--exit-zero"), 0),
        (("step.py", *OWN, "--ignore", "USR001"), 0),
        (("step.py", *OWN, "--fail-on", "error"), 1),
        (("step.py", *OWN, "--config", "severity={host-read='warning'}", "--fail-on", "error"), 0),
        (("step.py", *OWN, "--config", "severity={host-read='note'}"), 0),
        (("step.py", "--selct", "x"), 2),
        (("step.py", "--select", "host-snyc"), 2),
        (("step.py", "--config", "slect=1"), 2),
        (("step.py", "--rule-folder", "nowhere"), 2),
        (("missing.py",), 2),
        (("step.py", "--output-format", "yaml"), 2),
        (("step.py", "--torch-version", "new"), 2),
        (("step.py", "--python", "nowhere"), 2),
        (("explain", "no such thing"), 2),
    ],
)
def test_exit_status(project: Path, args: tuple[str, ...], status: int) -> None:
    run = graphlint(*args, cwd=project)
    assert run.returncode == status, run.stderr
    if status == 2:
        assert "graphlint: error: " in run.stderr and "Traceback" not in run.stderr


def test_a_folder_without_python_is_said_and_fine(project: Path) -> None:
    (project / "empty").mkdir()
    run = graphlint("empty", cwd=project)
    assert run.returncode == 0 and "no Python files in empty" in run.stderr


def test_standard_input(project: Path) -> None:
    run = graphlint("-", *OWN, "-f", "concise", cwd=project, stdin=CAPTURE)
    assert run.stdout.startswith("-:8:11: error USR001")
    named = as_json("-", "--stdin-filename", "sub/new.py", *OWN, cwd=project, stdin=CAPTURE)
    assert places(named) == [("host-read", "sub/new.py", 8)]
    fixed = graphlint(
        "-",
        "--fix",
        *OWN,
        cwd=project,
        stdin=CAPTURE.replace("item())", "item())  # graphlint: ignore[host-read] x")
        + "\nx  # graphlint: ignore[host-read] y\n",
    )
    assert fixed.stdout.endswith("\nx\n") and "ignore[host-read] x" in fixed.stdout


def test_the_given_files_filter_the_report_and_the_project_is_the_scope(tmp_path: Path) -> None:
    """An edited helper shows the capture that it breaks, whichever of the two is named, however calls are split."""
    rule_folder(tmp_path)
    project = tmp_path / "p"
    (project / "deep").mkdir(parents=True)
    (project / "pyproject.toml").write_text("[tool.graphlint]\n")
    (project / "helper.py").write_text("def show(t):\n    print(t.sum().item())\n")
    (project / "deep" / "run.py").write_text(
        "import torch\nfrom helper import show\nx = torch.ones(8, device='cuda')\ng = torch.cuda.CUDAGraph()\nshow(x)\n"
        "with torch.cuda.graph(g):\n    show(x)\n"
    )
    (project / "other.py").write_text("x = 1\n")
    expected = [("host-read", "helper.py", 2)]
    for given in (["helper.py"], ["deep/run.py"], ["."], ["helper.py", "other.py", "deep"]):
        report = as_json(*given, *OWN, cwd=project)
        assert places(report) == expected, given
        assert report["findings"][0]["trace"][0] == {"path": "deep/run.py", "line": 6, "message": "captured here"}
    assert places(as_json("other.py", *OWN, cwd=project)) == []
    assert places(as_json("run.py", "--rule-folder", "../../own_rules", *OWN[2:], cwd=project / "deep")) == [
        ("host-read", "../helper.py", 2)
    ]


def test_suppressions_on_the_command_line(project: Path) -> None:
    path = project / "step.py"
    path.write_text(CAPTURE.replace("item())", "item())  # graphlint: ignore[host-read] shown once"))
    run = graphlint("step.py", *OWN, cwd=project)
    assert run.returncode == 0 and "(1 suppressed)" in run.stdout
    path.write_text(CAPTURE.replace("item())", "item())  # noqa: USR001"))
    assert graphlint("step.py", *OWN, cwd=project).returncode == 1, "only GL codes are read from noqa"


def test_fix_removes_unused_suppressions_once_and_for_all(project: Path) -> None:
    path = project / "step.py"
    path.write_bytes(
        ("\ufeff" + CAPTURE + "y = 1  # graphlint: ignore[host-read] idle\n").replace("\n", "\r\n").encode()
    )
    diff = graphlint("step.py", "--diff", *OWN, cwd=project)
    assert diff.returncode == 1 and "-y = 1  # graphlint: ignore[host-read] idle" in diff.stdout
    assert "graphlint: ignore" in path.read_text(encoding="utf-8-sig"), "--diff writes nothing"
    run = graphlint("step.py", "--fix", *OWN, cwd=project)
    assert run.returncode == 1 and "(1 fixed)" in run.stdout
    assert path.read_bytes() == ("\ufeff" + CAPTURE + "y = 1\n").replace("\n", "\r\n").encode()
    assert "(1 fixed)" not in graphlint("step.py", "--fix", *OWN, cwd=project).stdout


def test_baseline(project: Path) -> None:
    assert graphlint("baseline", "step.py", *OWN, cwd=project).returncode == 0
    known = ("--baseline", "graphlint-baseline.json")
    assert graphlint("step.py", *known, *OWN, cwd=project).returncode == 0
    text = "# shifted\n" + CAPTURE.replace("g.replay()", "    total.tolist()\ng.replay()")
    (project / "step.py").write_text(text)
    assert places(as_json("step.py", *known, *OWN, cwd=project)) == [("host-read", "step.py", 10)]
    (project / "step.py").write_text("x = 1\n")
    run = graphlint("step.py", *known, *OWN, cwd=project)
    assert run.returncode == 0 and "no longer found" in run.stderr and "step.py: host-read" in run.stderr
    assert "1 entry removed" in graphlint("baseline", "--prune", "step.py", *OWN, cwd=project).stderr
    assert json.loads((project / "graphlint-baseline.json").read_text())["findings"] == []


def test_per_file_ignores_exclude_and_force_exclude(project: Path) -> None:
    (project / "tests").mkdir()
    (project / "tests" / "t.py").write_text(CAPTURE)
    (project / "pyproject.toml").write_text('[tool.graphlint]\nextend-exclude = ["gen_*.py"]\n')
    (project / "gen_a.py").write_text(CAPTURE)
    ignore = ("--per-file-ignores", "tests/**:USR001")
    assert [p[1] for p in places(as_json(".", *OWN, cwd=project))] == ["step.py", "tests/t.py"]
    assert [p[1] for p in places(as_json(".", *OWN, *ignore, cwd=project))] == ["step.py"]
    assert [p[1] for p in places(as_json("gen_a.py", *OWN, cwd=project))] == ["gen_a.py"], "named files are checked"
    assert places(as_json("gen_a.py", *OWN, "--force-exclude", cwd=project)) == []


def test_git_ignored_files_are_skipped(project: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    (project / ".gitignore").write_text("step.py\n")
    assert places(as_json(".", *OWN, cwd=project)) == []
    assert places(as_json(".", "--no-respect-gitignore", *OWN, cwd=project)) == [("host-read", "step.py", 8)]


def test_reports_of_several_formats_in_one_run(project: Path) -> None:
    run = graphlint("step.py", *OWN, "--report", "sarif=out/a.sarif", "--report", "json=out/a.json", cwd=project)
    assert run.stdout.startswith("step.py:8:11: error")
    assert json.loads((project / "out/a.sarif").read_text())["version"] == "2.1.0"
    assert places(json.loads((project / "out/a.json").read_text())) == [("host-read", "step.py", 8)]


def test_statistics(project: Path) -> None:
    run = graphlint("step.py", *OWN, "--statistics", "-q", cwd=project)
    assert run.stdout == "1  USR001[host-read]  a host read of a tensor inside a capture\n"


@pytest.mark.parametrize(
    ("environ", "option", "colored"),
    [({}, "auto", False), ({"FORCE_COLOR": "1"}, "auto", True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
     ({}, "always", True), ({"FORCE_COLOR": "1"}, "never", False)],
)  # fmt: skip
def test_colour(project: Path, environ: dict[str, str], option: str, colored: bool) -> None:
    run = graphlint("step.py", *OWN, "--color", option, cwd=project, **environ)
    assert ("\x1b[" in run.stdout) == colored


@pytest.mark.parametrize("more", [[], ["-f", "json"], ["--statistics"], ["--show-regions"]])
def test_a_reader_that_goes_away_gets_no_traceback(project: Path, more: list[str]) -> None:
    """As in `| head`; 141 is what shells show for it, and cannot be taken for findings."""
    process = subprocess.Popen(
        [sys.executable, "-m", "graphlint", "step.py", *OWN, *more],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(project),
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_is_130(project: Path) -> None:
    folder = rule_folder(project / "slow", "import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "graphlint", "step.py", "--rule-folder", str(folder)],
        cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(project),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_in_a_terminal_reaches_helpers_too(tmp_path: Path) -> None:
    """A terminal interrupts the whole process group: the helper that looks for syntax errors dies silently."""
    body = "x = [" + "(1, 2), " * 20_000 + "]\n"
    for number in range(400):
        (tmp_path / f"m{number}.py").write_text(body)
    process = subprocess.Popen(
        [sys.executable, "-m", "graphlint", "--jobs", "2", "--no-cache", "."],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(tmp_path),
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 30
        tasks = Path(f"/proc/{process.pid}/task")
        while sys.platform == "linux" and not any(p.read_text() for p in tasks.glob("*/children")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in said and "interrupted" in said


def test_packages_that_are_not_there_are_said(project: Path) -> None:
    run = graphlint("step.py", *OWN, "--config", "python='gone'", cwd=project)
    assert run.returncode == 1 and "warning: `python`: no installed packages found in" in run.stderr


def test_a_crash_is_2_and_asks_for_a_report(project: Path) -> None:
    code = (
        "import graphlint.engine as e; e.find = 1; e.analyse = lambda *a: 1 / 0; from graphlint.cli import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "step.py", "--no-cache"],
        cwd=project, capture_output=True, text=True, timeout=60, env=environment(project),
    )  # fmt: skip
    assert run.returncode == 2 and "please report it" in run.stderr and "ZeroDivisionError" in run.stderr


def test_a_rule_that_crashes_is_one_line_and_the_rest_goes_on(project: Path) -> None:
    other = project.parent / "own_rules" / "usr002_broken"
    other.mkdir()
    (other / "rule.py").write_text(
        "from graphlint.rule import rule\n\n\n@rule('USR002', 'broken', 'error', 'crashes')\ndef check(region):\n"
        "    raise ValueError('boom\\nsecond line')\n    yield\n"
    )
    report = as_json(
        "step.py", "--rule-folder", "../own_rules", "--select", "host-read,broken,unreadable-file", cwd=project
    )
    assert places(report) == [("unreadable-file", "step.py", 6), ("host-read", "step.py", 8)]
    assert (
        "USR002[broken] failed on this capture, please report it: ValueError: boom second line"
        in report["errors"][0]["message"]
    )


def test_a_broken_rule_folder_is_one_clear_line(project: Path) -> None:
    (project.parent / "own_rules" / "usr001_host_read" / "rule.py").write_text("import nothing_such\n")
    run = graphlint("step.py", *OWN, cwd=project)
    assert run.returncode == 2 and len(run.stderr.splitlines()) == 1 and "nothing_such" in run.stderr


def test_explain_rules_and_config(project: Path) -> None:
    assert "# USR001 host-read" in graphlint("explain", "usr001", "--rule-folder", "../own_rules", cwd=project).stdout
    run = graphlint(
        "explain", "RuntimeError: CUDA error: operation not permitted\n when stream is capturing", cwd=project
    )
    assert run.returncode == 0 and "host-sync" in run.stdout
    listed = json.loads(graphlint("rules", "-f", "json", "--rule-folder", "../own_rules", cwd=project).stdout)
    assert {"code": "USR001", "name": "host-read", "severity": "error"}.items() <= next(
        r for r in listed if r["code"] == "USR001"
    ).items()
    (project / "graphlint.toml").write_text("torch-version = '2.12'\n")
    shown = json.loads(graphlint("config", "-f", "json", cwd=project).stdout)
    assert shown["settings"]["torch-version"] == {"value": "2.12", "from": str(project / "graphlint.toml")}
    assert shown["about"]["packages are read from"] == []


def test_new_rule_starts_a_folder_that_loads(project: Path) -> None:
    run = graphlint("new-rule", "late-copy", "--rule-folder", "../own_rules", cwd=project)
    assert run.returncode == 0 and "USR002[late-copy]" in run.stdout
    assert "late-copy" in graphlint("rules", "--rule-folder", "../own_rules", cwd=project).stdout
    assert graphlint("new-rule", "late-copy", "--rule-folder", "../own_rules", cwd=project).returncode == 2
    assert graphlint("new-rule", "Late Copy", "--rule-folder", "../own_rules", cwd=project).returncode == 2


def test_torch_is_never_imported_and_nothing_linted_is_run(project: Path) -> None:
    (project / "step.py").write_text("import pathlib\npathlib.Path('ran').touch()\n" + CAPTURE)
    (project / "sitecustomize.py").write_text("raise SystemExit('run')\n")
    code = (
        "import sys; sys.argv = ['graphlint', 'step.py', '-q']\n"
        "try:\n    from graphlint.cli import main; main()\nexcept SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    env = environment(project)
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, timeout=60, env=env, capture_output=True)
    assert not (project / "ran").exists()


def test_help_and_version(project: Path) -> None:
    run = graphlint("--help", cwd=project)
    assert run.returncode == 0 and "baseline" in run.stdout and "lsp" in run.stdout
    assert graphlint("--version", cwd=project).stdout == f"graphlint {__version__}\n"
    assert "--output-format" in graphlint("check", "--help", cwd=project).stdout


def test_the_entry_point_names_a_clash(tmp_path: Path) -> None:
    """The unrelated distribution `graphlint` has an import package of the same name."""
    (tmp_path / "graphlint").mkdir()
    (tmp_path / "graphlint" / "__init__.py").write_text("")
    root = Path(__file__).parent.parent
    env = {**environment(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    code = "import _torch_graphlint_entry as e; e.main()"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=env, timeout=60
    )
    assert (
        run.returncode == 2 and "unrelated distribution" in run.stderr and "pip install torch-graphlint" in run.stderr
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("format", ["text", "json", "sarif"])
def test_a_full_disk_is_one_line(project: Path, format: str) -> None:
    command = [sys.executable, "-m", "graphlint", "step.py", *OWN, "-f", format]
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            command, cwd=project, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(project)
        )
    assert run.returncode == 2
    assert run.stderr == "graphlint: error: standard output cannot be written: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="a shell")
@pytest.mark.parametrize(("closed", "status"), [(">&-", 1), ("2>&-", 1), ("<&-", 1), (">&- 2>&- <&-", 1)])
def test_streams_that_are_closed_change_nothing(project: Path, closed: str, status: int) -> None:
    command = f'"{sys.executable}" -m graphlint step.py {" ".join(OWN)} {closed}'
    run = subprocess.run(command, shell=True, cwd=project, capture_output=True, text=True, env=environment(project))
    assert run.returncode == status and "Traceback" not in run.stderr


def test_a_file_that_nobody_can_read_is_no_trouble_for_the_others(project: Path) -> None:
    """It names the file that is asked about, so it might import it."""
    (project / "huge.py").write_bytes(b"import step\n" + b"x = 1\n" * 900_000)
    (project / "latin.py").write_bytes(b"import step\ns = '\xff'\n")
    run = graphlint("step.py", *OWN, "-f", "concise", "-q", "--no-cache", cwd=project)
    assert run.returncode == 1 and run.stdout.startswith("step.py:8:11: error USR001[host-read]"), run.stderr
    assert run.stderr == ""
