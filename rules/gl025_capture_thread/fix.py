"""The capture minds its own thread only."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import CaptureBegin, Op
from graphlint.finding import Fix, Problem
from graphlint.region import Region

_BACKWARD = ("Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")


def fix(problem: Problem, region: Region) -> Fix | None:
    begun = [f for f in region.life if isinstance(f, CaptureBegin) and f.begun.at == region.at]
    other = "while another thread may call CUDA" in problem.message and len(begun) > 1
    if problem.message.startswith("captured from several threads") or other:
        return None  # two captures at once fail in every mode
    if any(isinstance(f, Op) and f.name in _BACKWARD for f in region.captured):
        return None  # autograd runs it in a thread of its own
    return edits.fix(
        "capture in thread-local mode: what other threads do is then no error",
        edits.argument(region.at, "capture_error_mode", '"thread_local"'),
        safe=False,
    )
