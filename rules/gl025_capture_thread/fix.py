"""The capture minds its own thread only."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Op
from graphlint.finding import Fix, Problem
from graphlint.region import Region

_BACKWARD = ("Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")


def fix(problem: Problem, region: Region) -> Fix | None:
    if problem.message.startswith("captured from several threads"):
        return None  # in no mode
    if any(isinstance(f, Op) and f.name in _BACKWARD for f in region.captured):
        return None  # autograd runs it in a thread of its own
    return edits.fix(
        "capture in thread-local mode: what other threads do is then no error",
        edits.argument(region.at, "capture_error_mode", '"thread_local"'),
        safe=False,
    )
