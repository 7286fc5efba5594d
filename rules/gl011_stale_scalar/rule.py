"""Python numbers, flags and lengths that captured work used, and that change between replays."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location

from .arguments import frozen_arguments
from .modes import autocast_around, mode_flips
from .rates import learning_rates
from .scalars import cpu_scalars, stale_numbers


@rule("GL011", "stale-scalar", "error", "a Python number or flag that changes between replays is frozen in the graph")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in (*places.MANUAL, "graphed-callables"):
        return
    told: set[Location] = set()
    manual = region.kind in places.MANUAL
    found = [*stale_numbers(region), *learning_rates(region)]
    if manual:
        found += [
            *frozen_arguments(region),
            *mode_flips(region),
            *autocast_around(region),
            *cpu_scalars(region),
        ]
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem
