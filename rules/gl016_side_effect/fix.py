"""Counters become tensors, which replays count up."""

from __future__ import annotations

from graphlint import device_number, edits
from graphlint.fact import Bind
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    if "is changed in Python while capturing" not in problem.message:
        return None
    bind = next((f for f in region.captured if isinstance(f, Bind) and f.at == problem.at), None)
    made = device_number.rewrites(region, bind.place) if bind is not None else None
    return edits.fix("count in a tensor on the GPU, which replays count up", *made, safe=False) if made else None
