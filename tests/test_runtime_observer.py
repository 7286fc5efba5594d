"""What is seen of a real capture: its calls with their lines, what it reads and leaves, and that nothing is changed.

There is no GPU here: the observer watches emulated graphs, or tensors on the CPU between two calls of its own.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode  # noqa: E402

from graphlint.runtime import events, frames, process, session, worker  # noqa: E402
from graphlint.runtime.cuda import calling  # noqa: E402
from graphlint.runtime.cuda.calling import Dispatched, Functions, Watch  # noqa: E402
from graphlint.runtime.emulate.install import emulated  # noqa: E402
from graphlint.runtime.spec import Result, Spec  # noqa: E402
from graphlint.runtime.target import Target  # noqa: E402

PROGRAM = """
import torch

weight = torch.nn.Parameter(torch.randn(4, 4, device="cuda"))
x = torch.zeros(2, 4, device="cuda")
kept = []

def deep(y, times):
    if times > 100:
        y = y * 3
    z = y.view(4, 2).t()
    return z + 1

def step(y):
    h = y @ weight
    y.add_(1)
    return deep(torch.relu(h)[:1], 2) if False else deep(torch.relu(h), 2)

with torch.no_grad():
    step(x)
graph = torch.cuda.CUDAGraph()
with torch.no_grad(), torch.cuda.graph(graph):
    out = step(x)
graph.replay()
"""

TRAINING = """
import torch

weight = torch.nn.Parameter(torch.ones(4, device="cuda"))
weight.grad = torch.zeros(4, device="cuda")
x = torch.ones(4, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(2):
        (weight * x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = (weight * x).sum()
    loss.backward()
"""


def observed(tmp_path: Path, text: str) -> tuple[Result, list[Any]]:
    """A run as on a GPU, over emulated graphs: the result and its events."""
    path = tmp_path / "program.py"
    path.write_text(text)
    spec, result = Spec(Target(str(path)), backend="cuda"), Result()
    torch.set_num_threads(1)
    with emulated():
        with worker.watched_on_gpu() as (observer, journal):
            worker.run_target(spec, result)
        observer.finish()
        worker.conclude(observer, journal, result)
    assert result.outcome == "ok", result.detail
    return result, observer.events


def test_calls_with_their_lines_and_without_views(tmp_path: Path) -> None:
    result, run = observed(tmp_path, PROGRAM)
    calls = [e for e in run if isinstance(e, events.Call)]
    assert [(e.name, e.at[0].line) for e in calls] == [("matmul", 15), ("add_", 16), ("relu", 17), ("add", 12)]
    (region,) = result.regions
    assert region["calls"] == 4 and region["captured"]
    assert result.counts[str(tmp_path / "program.py")] == {"15": 1, "16": 1, "17": 1, "12": 1}


def test_what_is_read_and_what_is_left(tmp_path: Path) -> None:
    (region,) = observed(tmp_path, PROGRAM)[0].regions
    assert region["inputs"] == [{"shape": [2, 4], "dtype": "float32", "bytes": 32}]
    assert region["parameters"] == {"count": 1, "bytes": 64}
    assert region["outputs"] == [{"shape": [2, 4], "dtype": "float32", "bytes": 32}]


def test_lines_of_what_a_capture_calls(tmp_path: Path) -> None:
    result, _ = observed(tmp_path, PROGRAM)
    lines = set(result.executed[str(tmp_path / "program.py")])
    assert {9, 11, 12, 15, 16, 17, 23} <= lines and not lines & {10, 19, 20, 24}


LATE = """
import torch

def plain(y):
    y = y + 1
    return y

def deep(y, late):
    if late:
        y = y * 3
    return plain(y)

x = torch.zeros(4, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = x
    for turn in range(20):
        out = deep(out, turn == 15)
graph.replay()
"""


def test_a_line_that_runs_in_a_late_call_only(tmp_path: Path) -> None:
    result, run = observed(tmp_path, LATE)
    lines = set(result.executed[str(tmp_path / "program.py")])
    assert {5, 6, 9, 10, 11, 17, 18} <= lines
    assert sum(isinstance(e, events.Call) for e in run) == 21


def test_a_backward_is_watched_call_by_call(tmp_path: Path) -> None:
    result, run = observed(tmp_path, TRAINING)
    names = Counter(e.name for e in run if isinstance(e, events.Call))
    assert names["mul"] == 2 and names["sum"] == 1 and names["add_"] >= 1, names
    (region,) = result.regions
    assert region["parameters"] == {"count": 1, "bytes": 16}
    assert len(region["inputs"]) == 2  # x, and the gradient that every replay adds to


# ------------------------------------------------------------ nothing is changed
@contextmanager
def watched() -> Iterator[Watch]:
    watch = Watch([])
    watch.begin()
    try:
        yield watch
    finally:
        watch.end()


def names(watch: Watch) -> list[str]:
    return [name for name, _, _ in watch.calls.log]


def test_modules_take_the_fast_path_that_they_take_unwatched() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.randn(1, 3, 8)
    with torch.no_grad():
        plain = layer(x)
        with watched() as watch:
            assert torch.equal(layer(x), plain)
    assert names(watch) == ["_transformer_encoder_layer_fwd"]
    assert torch.overrides.has_torch_function((x,)) is False


def test_a_mode_of_the_programs_own_may_end_after_the_capture() -> None:
    class Own(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    watch, own = Watch([]), Own()
    watch.begin()
    own.__enter__()
    torch.ones(2) + 1
    watch.end()
    torch.ones(2) * 2
    assert torch.overrides._get_current_function_mode() is own
    own.__exit__(None, None, None)
    assert torch.overrides._get_current_function_mode() is None
    assert names(watch) == ["ones", "add"]


def test_a_capture_that_another_thread_ends_is_watched_no_longer() -> None:
    watch = Watch([])
    watch.begin()
    thread = threading.Thread(target=watch.end)
    thread.start()
    thread.join()
    torch.ones(2) + 1
    assert names(watch) == []
    assert calling._take_out(watch._mode) == []


def test_programs_that_compile_are_watched_in_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(Watch([])._mode, Functions)
    import torch._dynamo.eval_frame as dynamo

    torch.compiler.disable(lambda: None)
    assert isinstance(Watch([])._mode, Functions)
    monkeypatch.setattr(dynamo, "cached_backends", {1: len})
    with watched() as watch:
        torch.ones(2).view(1, 2) + 1
    assert isinstance(watch._mode, Dispatched) and names(watch) == ["ones", "add"]


def test_what_has_no_address_is_let_through() -> None:
    sparse = torch.eye(3).to_sparse()
    with watched() as watch:
        total = torch.sparse.sum(sparse)
        mapped = torch.func.vmap(lambda row: row * 2)(torch.ones(2, 3))
    assert float(total) == 3 and float(mapped.sum()) == 12
    assert watch.calls.log


def test_nothing_that_is_noted_holds_a_tensor() -> None:
    import weakref

    with watched() as watch:
        held = torch.ones(3)
        gone = weakref.ref(held + 1)
        assert gone() is None
    assert [name for name in names(watch)] == ["ones", "add"]


def test_tracing_goes_on_after_a_capture_and_no_tool_is_left(tmp_path: Path) -> None:
    before = sys.gettrace()
    observed(tmp_path, PROGRAM + "graph.replay()\n")
    assert sys.gettrace() is before
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(n) for n in (3, 4)] == [None, None]


# ------------------------------------------------------------ whose code it is
def test_packages_that_pip_put_into_a_folder_are_not_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("model_zoo", "mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "layers.py").write_text("")
    record = tmp_path / "model_zoo-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("model_zoo/layers.py,,\nmodel_zoo-1.0.dist-info/RECORD,,\n")
    zoo, mine = (str(tmp_path / name / "layers.py") for name in ("model_zoo", "mine"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert frames.is_library(zoo) and not frames.is_user(zoo)
    assert frames.is_user(mine) and not frames.is_library(mine)


# ------------------------------------------------------------ what a GPU's run is joined with
class OnEmulated:
    """A run on a GPU, in this process and over emulated graphs."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def result(self, limit: float) -> Result:
        result = Result()
        with emulated():
            with worker.watched_on_gpu() as (observer, journal):
                worker.run_target(self.spec, result)
            observer.finish()
            worker.conclude(observer, journal, result)
        return result


EFFECTS = sorted((Path(__file__).parent.parent / "rules").glob("gl016_*/bad_*.py"))


@pytest.mark.parametrize("example", EFFECTS, ids=lambda path: path.stem)
def test_side_effects_are_confirmed_where_a_gpu_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(session, "Child", OnEmulated)
    monkeypatch.setattr(sys, "path", list(sys.path))
    traced = session.trace(Spec(Target(str(example)), backend="cuda", quiet=True), 60)
    lines = [n for n, line in enumerate(example.read_text().splitlines(), 1) if "# expect: side-effect" in line]
    confirmed = {f.at.line for f in traced.confirmed if f.rule == "side-effect"}
    assert set(lines) <= confirmed, (lines, confirmed, traced.first.detail)


GROWING = """
import torch
from zoo.cache import Cache

class Decoder:
    def __init__(self):
        self.x = torch.ones(2, 1, device="cuda")
        self.cache = Cache(torch.ones(2, 3, device="cuda"))

    def step(self):
        return self.cache.update(self.x).sum(1)

decoder = Decoder()
decoder.step()
decoder.cache = Cache(torch.ones(2, 3, device="cuda"))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = decoder.step()
for _ in range(2):
    graph.replay()
"""

CACHE = """
import torch

class Cache:
    def __init__(self, keys):
        self.keys = keys

    def update(self, new):
        self.keys = torch.cat([self.keys, new], dim=1)
        return self.keys
"""


@pytest.mark.parametrize("installed", [False, True])
def test_state_that_other_code_grows_leads_back_to_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    home = tmp_path / "packages"
    (home / "zoo").mkdir(parents=True)
    (home / "zoo" / "__init__.py").write_text("")
    (home / "zoo" / "cache.py").write_text(CACHE)
    if installed:
        (home / "zoo-1.0.dist-info").mkdir()
        (home / "zoo-1.0.dist-info" / "RECORD").write_text("zoo/__init__.py,,\nzoo/cache.py,,\n")
    path = tmp_path / "program.py"
    path.write_text(GROWING)
    monkeypatch.setattr(sys, "path", [str(home), *sys.path])
    result = process.run(Spec(Target(str(path)), quiet=True), 60)
    found = {(o["line"], o["weak"]) for o in result.observations if o["rule"] == "side-effect"}
    spots = {(o["path"], o["line"]) for o in result.observations if o["rule"] == "side-effect"}
    if installed:  # the user's own line is the place
        assert (11, False) in found and (str(path), 11) in spots
    else:
        assert (str(home / "zoo" / "cache.py"), 9) in spots and (str(path), 11) in spots and (11, True) in found


def test_what_raises_no_error_is_not_refuted_where_the_emulated_run_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(session, "Child", OnEmulated)
    monkeypatch.setattr(session, "run", lambda spec, limit: Result(outcome="error", detail="RuntimeError: no room"))
    example = next(path for path in EFFECTS if path.stem == "bad_append")
    traced = session.trace(Spec(Target(str(example)), backend="cuda", quiet=True), 60)
    verdicts = {f.verdict: f.evidence for f in traced.findings if f.rule == "side-effect"}
    assert set(verdicts) == {"not-reached"} and "no room" in verdicts["not-reached"]


def test_only_the_package_torch_is_torch() -> None:
    model = "/opt/torch/lib/python3.12/site-packages/model_zoo/layers.py"
    assert frames.is_library(model) and frames.torch_file(model) == ""
    assert frames.torch_file(torch.nn.functional.__file__) == "nn/functional.py"
    assert not frames.is_library(torch.nn.functional.__file__)


LEFT_OPEN = """
import torch

x, stream, graph = torch.ones(2, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
try:
    with torch.cuda.stream(stream):
        graph.capture_begin()
        assert (x > 0).all()
        graph.capture_end()
except RuntimeError:
    print("refused")
"""


def test_a_capture_that_an_error_leaves_open_has_a_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.setattr(session, "Child", OnEmulated)
    path = tmp_path / "program.py"
    path.write_text(LEFT_OPEN)
    traced = session.trace(Spec(Target(str(path)), backend="cuda", quiet=True), 60)
    found = [(f.rule, f.at.line) for f in traced.findings if f.verdict == "confirmed"]
    assert ("tensor-control-flow", 8) in found and found.count(("capture-misuse", 7)) == 1
