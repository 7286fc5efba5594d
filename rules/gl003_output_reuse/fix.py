"""What is kept is a copy of the static output."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Bind, Keep, Return
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.value import Instance, options


def fix(problem: Problem, region: Region) -> Fix | None:
    kept = edits.kept_value(problem.at)
    if kept is None or _holds_others(problem, region):
        return None
    return edits.fix(
        "keep a copy: the next replay overwrites the output", edits.method(kept, "clone()"), safe=edits.is_plain(kept)
    )


def _holds_others(problem: Problem, region: Region) -> bool:
    """True if what is kept here is an object with the output in it: it has no `clone()`."""
    for fact in region.life:
        if (
            isinstance(fact, (Bind, Keep, Return))
            and fact.at.path == problem.at.path
            and fact.at.line == problem.at.line
        ):
            value = fact.value
            if value is not None and all(isinstance(o, Instance) for o in options(value)):
                return True
    return False
