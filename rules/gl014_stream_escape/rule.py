"""Work that leaves the capturing stream without a fork or a join, and replays that do not wait for their input."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location

from .beside import begun_outside, not_awaited, warmed_too_early
from .capturing import captured_streams, handed_over


@rule(
    "GL014",
    "stream-escape",
    "error",
    "work leaves the capturing stream unforked or unjoined, or a replay does not wait",
)
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in (*places.MANUAL, "graphed-callables"):
        return
    told: set[Location] = set()
    found = [*captured_streams(region), *handed_over(region)]
    if region.kind in places.MANUAL:
        found += [*not_awaited(region), *begun_outside(region), *warmed_too_early(region)]
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem
