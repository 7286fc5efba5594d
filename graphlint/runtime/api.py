"""The Python interface: `graphlint.trace(step, x, y)` captures a callable and says what came of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from graphlint.finding import Finding
from graphlint.runtime.session import Traced, collect
from graphlint.runtime.spec import Spec
from graphlint.runtime.target import Target


@dataclass(frozen=True, slots=True)
class Trace:
    """What came of a capture. `outcome` is "ok", "capture-error", "wrong-result", "stale-result", "crash", "hang" or
    "memory"; `findings` are the confirmed ones, `error` the first cause of a capture that failed."""

    backend: str
    outcome: str
    findings: tuple[Finding, ...]
    error: str = ""
    captured: bool = False
    calls: int = 0

    @property
    def ok(self) -> bool:
        return self.captured and not self.findings and self.outcome == "ok"

    def text(self) -> str:
        """Findings with their lines, as a terminal shows them."""
        lines = [
            f"{os.path.relpath(f.at.path)}:{f.at.line}: {f.code}[{f.rule}] {f.evidence or f.message}"
            for f in self.findings
        ]
        if not self.captured:
            lines.insert(0, f"not captured: {self.error or self.outcome}")
        elif self.outcome != "ok" and not self.findings:
            lines.insert(0, f"{self.outcome}: {self.error}")
        return "\n".join(lines) or f"captured {self.calls} calls, replay agrees with eager ({self.backend})"


def trace(
    function: Callable[..., Any],
    *inputs: Any,
    backend: str = "auto",
    ignore: Sequence[str] = (),
    replays: int = 2,
    timeout: float = 300.0,
) -> Trace:
    """Warms `function` up, captures it on copies of `inputs`, replays it on fresh inputs and compares with eager.

    Args:
        inputs: tensors (moved to the device where needed) and other values.
        backend: "emulate" runs in a process of its own on the CPU, "cuda" captures for real in this process.
        ignore: names or codes of rules to leave out.

    Raises:
        RuntimeError: `backend="cuda"` where torch sees no CUDA device.
    """
    if backend == "auto":
        backend = "cuda" if torch.cuda.is_available() else "emulate"
    if backend == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("torch sees no CUDA device here")
    spec = Spec(Target("", call=Call(function, inputs, replays)), backend, output_to=None)
    return summary(collect(spec, timeout), ignore)


@dataclass(frozen=True, slots=True)
class Call:
    """A callable to capture, and what with."""

    function: Callable[..., Any]
    inputs: tuple[Any, ...]
    replays: int = 2

    def run(self) -> None:
        from graphlint.runtime.compare import capture_and_compare, reach

        reach(self.function, self.inputs)
        inputs = tuple(i.cuda() if isinstance(i, torch.Tensor) and not i.is_cuda else i for i in self.inputs)
        capture_and_compare(self.function, inputs, self.replays)


def summary(traced: Traced, ignore: Sequence[str] = ()) -> Trace:
    left_out = {word.lower() for word in ignore}
    findings = tuple(
        replace(f) for f in traced.confirmed if f.rule.lower() not in left_out and f.code.lower() not in left_out
    )
    regions = traced.first.regions
    captured = any(r["captured"] for r in regions)
    error = next((r["error"]["text"] for r in regions if r["error"] is not None), traced.detail or traced.first.detail)
    outcome = traced.outcome
    if not findings and captured and outcome not in ("crash", "hang", "memory"):
        outcome = "ok" if traced.first.outcome == "ok" else traced.first.outcome
    calls = sum(int(r["calls"]) for r in regions)
    return Trace(traced.spec.backend, outcome, findings, error, captured, calls)
