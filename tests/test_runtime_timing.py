"""What a trace says beside its verdicts: warm-up runs, static tensors, and on a GPU what a capture saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphlint.runtime import text, worker  # noqa: E402
from graphlint.runtime.cuda.observe import observed  # noqa: E402
from graphlint.runtime.cuda.outline import Outline  # noqa: E402
from graphlint.runtime.cuda.timing import CALLS, Timing  # noqa: E402
from graphlint.runtime.emulate.install import emulated  # noqa: E402
from graphlint.runtime.spec import Result, Spec  # noqa: E402
from graphlint.runtime.target import Target  # noqa: E402

PROGRAM = """
import torch

weight = torch.nn.Parameter(torch.randn(4, 4, device="cuda"))
x = torch.zeros(2, 4, device="cuda")

def step():
    return torch.relu(x @ weight)

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side), torch.no_grad():
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    out = step()
for _ in range(5):
    graph.replay()
print("RESULT", float(out.sum()), torch.cuda.CUDAGraph.replay.__name__)
"""


CLOCK = """
class Clock:
    now, inside = 0.0, []

    def __init__(self, enable_timing=False):
        self.at = -1.0

    def record(self, stream=None):
        Clock.now += 1
        Clock.inside.append(torch.cuda.is_current_stream_capturing())
        self.at = Clock.now

    def query(self):
        return True

    def elapsed_time(self, other):
        return other.at - self.at
"""


def clock() -> Any:
    """Stands for torch.cuda.Event: a tick passes with each record. Its code counts as none of the program's."""
    names: dict[str, Any] = {"torch": torch}
    exec(compile(CLOCK, "<clock>", "exec"), names)
    return names["Clock"]


def traced(tmp_path: Path, text: str, **options: Any) -> Result:
    path = tmp_path / "program.py"
    path.write_text(text)
    spec, result = Spec(Target(str(path)), **options), Result()
    with worker.watched(spec) as (machine, journal):
        worker.run_target(spec, result)
    worker.conclude(machine, journal, result)
    return result


def timed(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, event: Any = None) -> Result:
    """The parts of a run on a GPU, over emulated graphs and a clock that ticks."""
    path = tmp_path / "program.py"
    path.write_text(text)
    spec, result = Spec(Target(str(path)), backend="cuda"), Result()
    torch.set_num_threads(1)
    with emulated(), observed() as observer:
        monkeypatch.setattr(torch.cuda, "Event", event or clock())
        journal = observer.journal = Outline(observer)
        journal.watchers = [Timing(observer, journal)]
        with journal:
            worker.run_target(spec, result)
        observer.finish()
        worker.conclude(observer, journal, result)
    return result


def test_a_region_says_what_it_reads_and_leaves_and_how_it_was_warmed_up(tmp_path: Path) -> None:
    (region,) = traced(tmp_path, PROGRAM).regions
    assert region["warm_ups"] == 3
    assert region["inputs"] == [{"shape": [2, 4], "dtype": "float32", "bytes": 32}]
    assert region["parameters"] == {"count": 1, "bytes": 64}
    assert region["outputs"] == [{"shape": [2, 4], "dtype": "float32", "bytes": 32}]
    assert region["timing"] is None
    lines = text.details(region)
    assert lines == [
        "1 static input, 32 B: 2x4 float32; 1 parameter, 64 B",
        "1 output, 32 B: 2x4 float32",
        "warm-up runs before it: 3",
    ]


def test_inline_calls_are_known_again_by_their_text(tmp_path: Path) -> None:
    inline = PROGRAM.replace("step()\n", "torch.relu(x @ weight)\n").replace("def torch.relu(x @ weight)", "def step()")
    assert (
        traced(tmp_path, inline.replace("def step():\n    return torch.relu(x @ weight)\n", "")).regions[0]["warm_ups"]
        == 3
    )


def test_a_capture_without_warm_up_had_none(tmp_path: Path) -> None:
    bare = PROGRAM.replace("    for _ in range(3):\n        step()\n", "    x.zero_() @ weight\n")
    assert traced(tmp_path, bare).regions[0]["warm_ups"] == 0


def test_eager_and_replay_times_and_what_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = timed(tmp_path, PROGRAM, monkeypatch)
    assert result.outcome == "ok", result.detail
    (region,) = result.regions
    timing = region["timing"]
    assert timing["replays"] == 5 and timing["replay_ms"] == 1
    assert timing["eager_ms"] > 1 and timing["worth"]  # events of the statements inside tick, too
    assert timing["saved_ms"] == timing["eager_ms"] - 1 and timing["speedup"] == timing["eager_ms"]
    assert any("worth it" in line for line in text.details(region))
    assert region["inputs"] == [{"shape": [2, 4], "dtype": "float32", "bytes": 32}]


def test_calls_that_only_a_capture_made_have_no_eager_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = PROGRAM.replace("    for _ in range(3):\n        step()\n", "    x.zero_() @ weight\n")
    (region,) = timed(tmp_path, bare, monkeypatch).regions
    assert region["timing"]["eager_ms"] is None and "worth" not in region["timing"]
    assert any("eager is unknown" in line for line in text.details(region))


def test_timing_records_no_event_in_a_capture_and_ends_after_a_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = clock()
    result = timed(tmp_path, PROGRAM.replace("range(3)", "range(200)"), monkeypatch, ticks)
    assert result.regions[0]["captured"] and not any(ticks.inside)
    assert 0 < len(ticks.inside) < 20 * CALLS


HIDDEN = """
import torch

x = torch.zeros(1 << 14, 1 << 14, device="cuda")

def step():
    if bool(x.any()):
        x.add_(1)
    return x.sum()

graph = torch.cuda.CUDAGraph()
for _ in range(3):
    step()
try:
    with torch.cuda.graph(graph):
        out = step()
    graph.replay()
except RuntimeError as error:
    print("REFUSED")
"""


def test_without_values_a_refused_read_is_still_a_failed_capture(tmp_path: Path) -> None:
    (region,) = traced(tmp_path, HIDDEN, fake=True).regions
    assert not region["captured"] and "not permitted" in region["error"]["text"]


def test_a_program_that_is_too_large_runs_without_values(tmp_path: Path) -> None:
    from graphlint.runtime.process import run

    path = tmp_path / "large.py"
    path.write_text(HIDDEN.replace("1 << 14, 1 << 14", "1 << 15, 1 << 14"))
    result = run(Spec(Target(str(path)), quiet=True), 60)
    assert not result.values and result.refused
    assert result.observations[0]["rule"] == "tensor-control-flow"


def test_shapes_that_do_not_fit_are_errors_without_values_too(tmp_path: Path) -> None:
    result = traced(
        tmp_path, "import torch\ntorch.zeros(3, device='cuda').copy_(torch.zeros(4, device='cuda'))\n", fake=True
    )
    assert result.outcome == "error" and "must match" in result.detail


def test_a_backward_and_an_optimizer_run_without_values(tmp_path: Path) -> None:
    program = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True)
x = torch.randn(4, 8, device="cuda")
def step():
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(4, dtype=torch.int64, device="cuda"))
    loss.backward()
    optimizer.step()
    return loss
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = step()
graph.replay()
assert model[0].weight.grad.shape == (8, 8)
assert loss.shape == () and loss.is_cuda and loss.dtype is torch.float32
"""
    result = traced(tmp_path, program, fake=True)
    assert result.outcome == "ok", result.detail
    assert result.regions[0]["captured"] and result.regions[0]["parameters"]["count"] == 6
