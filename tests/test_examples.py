"""The examples keep their promises: what each trap's header says, and what emulated graphs make of the tiny model."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
TRAPS = sorted((EXAMPLES / "qwen3" / "traps").glob("*.py"))
EIGHT = [
    "host_sync",
    "tensor_control_flow",
    "output_reuse",
    "missing_warmup",
    "optimizer_in_capture",
    "rng_misuse",
    "shape_mismatch_copy",
    "memory_pool",
]
OUTCOMES = {"ok", "capture-error", "wrong-result", "stale-result", "slow", "memory", "hang"}
needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the Qwen3 examples need transformers"
)


def header(path: Path, name: str) -> str:
    found = re.search(rf"^# {name}: (.+)$", path.read_text(encoding="utf-8"), re.M)
    return found.group(1) if found else ""


def test_each_classic_trap_is_planted_once() -> None:
    assert sorted(path.stem for path in TRAPS) == sorted([*EIGHT, "dynamic_cache"])


@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_a_trap_says_its_fault_its_outcome_and_its_line(path: Path) -> None:
    assert header(path, "fault")
    assert header(path, "outcome") in OUTCOMES - {"ok"}
    marks = re.findall(r"# expect: ([\w-]+)", path.read_text(encoding="utf-8"))
    assert len(marks) == 1
    assert path.stem in (marks[0].replace("-", "_"), "dynamic_cache")


@pytest.mark.parametrize("path", sorted(EXAMPLES.rglob("*.py")), ids=lambda path: path.stem)
def test_an_example_opens_with_what_it_shows(path: Path) -> None:
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    assert code.co_consts and isinstance(code.co_consts[0], str)


def emulated(script: Path, tmp_path: Path, *arguments: str) -> str:
    """The outcome that the script prints itself, its graphs emulated."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "graphlint", "trace", "--backend", "emulate", "--output-format", "json"]
    command += ["--output", str(tmp_path / "trace.json"), str(script), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    printed = re.findall(r"^OUTCOME: (\S+)", done.stdout + "\n" + done.stderr, re.M)
    assert printed, done.stderr[-2000:]
    return str(printed[-1])


@needs_transformers
@pytest.mark.parametrize("path", TRAPS, ids=lambda path: path.stem)
def test_an_emulated_trap_ends_as_on_a_gpu(path: Path, tmp_path: Path) -> None:
    # What the script writes to a file is not asked for: a refused capture is run again to see what comes after it.
    assert emulated(path, tmp_path) == header(path, "outcome")


@needs_transformers
@pytest.mark.parametrize("name", ["decode", "train_step", "compile"])
def test_the_right_versions_agree_with_eager_code(name: str, tmp_path: Path) -> None:
    assert emulated(EXAMPLES / "qwen3" / f"{name}.py", tmp_path) == "ok"


def test_the_fixed_quickstart_is_right(tmp_path: Path) -> None:
    assert emulated(EXAMPLES / "quickstart" / "decode_loop_fixed.py", tmp_path) == "ok"
    assert emulated(EXAMPLES / "quickstart" / "decode_loop.py", tmp_path) == "capture-error"
