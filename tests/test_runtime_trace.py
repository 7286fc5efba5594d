"""`graphlint trace`, the Python interface, and what a run reports whatever becomes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphlint  # noqa: E402
from graphlint.runtime import process, worker  # noqa: E402, F401
from graphlint.runtime.api import Trace  # noqa: E402
from graphlint.runtime.cuda.observe import observed  # noqa: E402
from graphlint.runtime.emulate.install import emulated  # noqa: E402
from graphlint.runtime.imported import imported  # noqa: E402
from graphlint.runtime.session import as_json, trace  # noqa: E402
from graphlint.runtime.spec import Spec  # noqa: E402
from graphlint.runtime.target import Target, TargetError  # noqa: E402

SYNC = """
import sys
import torch

def step(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    total = y.mean().item()
    return y / total

def main():
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step(x)
    graph.replay()
    return out

print("arguments", *sys.argv[1:])
main()
"""

REBOUND = """
import torch

class Runner:
    def __init__(self):
        self.x = torch.ones(4, device="cuda")
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.x * 3.0

    def run(self, x):
        self.x = x
        self.graph.replay()
        return self.out.clone()

runner = Runner()
keep = runner.x
print(runner.run(torch.full((4,), 2.0, device="cuda")))
"""


def script(folder: Path, text: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def traced(path: Path, limit: float = 60.0) -> Any:
    return trace(Spec(Target(str(path)), quiet=True), limit)


def confirmed(found: Any) -> set[tuple[str, int]]:
    return {(f.rule, f.at.line) for f in found.confirmed}


def test_every_refused_line_is_listed_not_only_the_first(tmp_path: Path) -> None:
    found = traced(script(tmp_path, SYNC))
    assert found.outcome == "capture-error"
    assert {("tensor-control-flow", 7), ("host-sync", 9)} <= confirmed(found)
    error = found.first.regions[0]["error"]
    assert (error["line"], found.first.regions[0]["captured"]) == (7, False)
    assert [line for _, line, _ in error["chain"]] == [7, 16, 21]


def test_a_rebound_input_is_confirmed_where_it_is_bound(tmp_path: Path) -> None:
    found = traced(script(tmp_path, REBOUND))
    assert found.outcome == "stale-result"
    assert ("stale-input", 12) in confirmed(found)


def test_a_right_program_confirms_nothing(tmp_path: Path) -> None:
    found = traced(script(tmp_path, REBOUND.replace("self.x = x\n", "self.x.copy_(x)\n")))
    assert (found.outcome, confirmed(found)) == ("ok", set())


def test_the_command_writes_json_and_lets_the_output_through(tmp_path: Path) -> None:
    path, report = script(tmp_path, SYNC), tmp_path / "report.json"
    command = [sys.executable, "-m", "graphlint.runtime", "--backend", "emulate", "-f", "json", "--output", str(report)]
    run = subprocess.run(
        [*command, path.name, "--size", "3"], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 1, run.stderr
    assert run.stdout == "arguments --size 3\n"
    assert "operation failed due to a previous error during capture" in run.stderr
    data = json.loads(report.read_text(encoding="utf-8"))
    assert data["trace"]["outcome"] == "capture-error"
    assert data["trace"]["backend"] == "emulate"
    assert data["regions"][0]["error"] == {
        "text": "CUDA error: operation not permitted when stream is capturing",
        "path": path.name,
        "line": 7,
    }
    finding = next(f for f in data["findings"] if f["rule"] == "host-sync")
    assert (finding["path"], finding["line"], finding["verdict"]) == (path.name, 9, "confirmed")


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "crash"),
        ("import time\nwhile True: time.sleep(0.05)", "hang"),
    ],
)
def test_the_report_survives(tmp_path: Path, body: str, outcome: str) -> None:
    found = traced(script(tmp_path, body), 3.0)
    assert found.outcome == outcome


def test_what_was_seen_before_a_hang_is_reported(tmp_path: Path) -> None:
    found = traced(script(tmp_path, REBOUND + "\nimport time\nwhile True: time.sleep(0.05)\n"), 6.0)
    assert found.outcome == "hang"
    assert ("stale-input", 12) in confirmed(found)


def test_a_comment_silences_what_only_the_run_showed(tmp_path: Path) -> None:
    text = REBOUND.replace("self.x = x\n", "self.x = x  # graphlint: ignore[stale-input] -- wanted\n")
    assert ("stale-input", 12) not in confirmed(traced(script(tmp_path, text)))


def test_callables_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path, "import torch\ndef double(x): return x * 2\ndef count(x): return x.nonzero()\n", "steps.py")
    monkeypatch.chdir(tmp_path)
    found = trace(Spec(Target("steps:double", shapes=("4x8 float32 cuda",)), quiet=True), 60)
    assert found.outcome == "ok"
    assert found.first.regions[0]["captured"]
    bad = trace(Spec(Target("steps:count", shapes=("4",)), quiet=True), 60)
    assert {rule for rule, _ in confirmed(bad)} == {"dynamic-shape-op"}
    with pytest.raises(TargetError, match="neither a file"):
        Target("steps").check()
    with pytest.raises(TargetError, match="is not like"):
        Target("steps:double", shapes=("four",)).check()


layer = torch.nn.Linear(4, 4)


def right(x: Any) -> Any:
    return layer(x).relu()


def reads(x: Any) -> Any:
    y = layer(x)
    return y / y.sum().item()


def allowed(x: Any) -> Any:
    y = layer(x)
    with graphlint.allow("host-sync", reason="a test"):
        return y / y.sum().item()


def test_trace_of_a_callable() -> None:
    found: Trace = graphlint.trace(right, torch.randn(2, 4), backend="emulate")
    assert found.ok, found.text()
    assert found.captured
    assert layer.weight.device.type == "cpu"
    bad = graphlint.trace(reads, torch.randn(2, 4), backend="emulate")
    assert not bad.ok
    assert [(f.rule, Path(f.at.path).name) for f in bad.findings] == [("host-sync", Path(__file__).name)]
    assert "host-sync" in bad.text()


def test_allow_keeps_the_finding_away() -> None:
    assert graphlint.trace(allowed, torch.randn(2, 4), backend="emulate").findings == ()
    with pytest.raises(ValueError, match="reason"):
        graphlint.allow("host-sync", reason="")


def test_the_observer_of_real_captures_finds_the_cause(tmp_path: Path) -> None:
    path = script(tmp_path, SYNC)
    with emulated(), observed() as observer:
        begin = torch.cuda.CUDAGraph.capture_begin
        with pytest.raises(RuntimeError, match="previous error during capture"):
            Target(str(path)).run()
    assert begin.__name__ == "capture_begin"
    found = worker.judge(observer.events)
    assert [(o.rule, o.at.line) for o in found] == [("tensor-control-flow", 7)]


def test_the_observer_leaves_nothing_behind() -> None:
    with emulated():
        before = dict(vars(torch.cuda.CUDAGraph))
        with observed():
            assert vars(torch.cuda.CUDAGraph)["replay"] is not before["replay"]
        after = dict(vars(torch.cuda.CUDAGraph))
    assert before == after


def test_cuda_without_a_gpu_is_one_line(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    command = [sys.executable, "-m", "graphlint.runtime", "--backend", "cuda", str(script(tmp_path, "print(1)"))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 2
    assert "torch sees no CUDA device here" in run.stderr


def test_the_page_stands_alone(tmp_path: Path) -> None:
    from graphlint.report.view import View
    from graphlint.runtime.page import page

    found = traced(script(tmp_path, SYNC.replace("x * 2", "x * 2  # </script><b>")))
    text = page(found, as_json(found, View(cwd=str(tmp_path), version="0", rules=found.registry.by_name)))
    assert "http" not in text.replace("https://docs.nvidia.com", "")
    assert text.count("</script>") == 2
    assert "host-sync" in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no browser to open the page in")
def test_a_browser_draws_the_page_without_an_error(tmp_path: Path) -> None:
    from graphlint.report.view import View
    from graphlint.runtime.page import page

    found = traced(script(tmp_path, SYNC))
    file = tmp_path / "page.html"
    file.write_text(page(found, as_json(found, View(cwd=str(tmp_path), version="0", rules=found.registry.by_name))))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/u",
    ]
    run = subprocess.run(
        ["chromium", *options, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120
    )
    assert "CONSOLE" not in run.stderr
    canvas = re.search(r'<canvas id="strip"[^>]*style="height: (\d+)px', run.stdout)
    assert canvas is not None and int(canvas[1]) > 20, "the strip was not drawn"


pytest_plugins = ["pytester"]


def test_the_pytest_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, torch
        layer = torch.nn.Linear(4, 4)
        def good(x): return layer(x).relu()
        def bad(x): return layer(x)[layer(x) > 0]
        def test_good(graph_safe): assert graph_safe(good, torch.randn(2, 4)).captured
        def test_inputs_as_a_tuple(graph_safe): graph_safe(good, (torch.randn(2, 4),))
        def test_bad(graph_safe): graph_safe(bad, torch.randn(2, 4))
        @pytest.mark.graph_safe(backend="emulate", colour="red")
        def test_unknown_option(graph_safe): pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", timeout=200)
    result.assert_outcomes(passed=2, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*not safe under a CUDA graph (emulate)*", "*GL013?dynamic-shape-op?*"])


def test_nothing_heavy_is_imported_by_the_plugin() -> None:
    code = "import sys, graphlint, graphlint.pytest_plugin; print([m for m in ('torch', 'libcst') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


def test_what_a_script_imports_from_beside_it_is_checked_with_it(tmp_path: Path) -> None:
    (tmp_path / "serve" / "inner").mkdir(parents=True)
    for name, text in {
        "main.py": "import json, serve\nfrom helpers import one",
        "helpers.py": "one = 1",
        "other.py": "",
        "serve/__init__.py": "from .runner import Runner",
        "serve/runner.py": "from .inner import deep\nfrom ..main import nothing",
        "serve/inner/__init__.py": "",
        "serve/inner/deep.py": "import serve.inner.deep",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    names = [path.relative_to(tmp_path).as_posix() for path in imported(tmp_path / "main.py", tmp_path)]
    assert names[0] == "main.py" and set(names) == {
        "main.py",
        "helpers.py",
        "serve/__init__.py",
        "serve/runner.py",
        "serve/inner/__init__.py",
        "serve/inner/deep.py",
    }
