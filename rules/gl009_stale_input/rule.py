"""Places that captured code reads and that something rebinds between replays: the graph goes on with the old memory."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location

from .arguments import captured_once, found_by_name, one_not_copied
from .rebound import rebound
from .renewed import made_anew, moved

KINDS = (*places.MANUAL, "graphed-callables")


@rule("GL009", "stale-input", "error", "what the graph reads is rebound instead of written in place")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in KINDS:
        return
    told: set[Location] = set()
    first = (*rebound(region), *moved(region))
    bound = {problem.at for problem in first}
    for problem in (*first, *made_anew(region, bound), *captured_once(region), *one_not_copied(region)):
        if problem.at not in told and not any(_within(problem.at, t) for t in told):
            told.add(problem.at)
            yield problem
    if not told:
        yield from found_by_name(region)


def _within(at: Location, other: Location) -> bool:
    return at.path == other.path and other.span.line <= at.span.line <= other.span.end_line
