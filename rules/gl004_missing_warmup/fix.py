"""The captured code runs once before, on a side stream; a warm-up on the default stream moves to one."""

from __future__ import annotations

import re

from graphlint import edits, queries
from graphlint.fact import Op, Write
from graphlint.finding import Fix, Problem
from graphlint.places import is_optimizer
from graphlint.region import Region
from graphlint.source import Location


def fix(problem: Problem, region: Region) -> Fix | None:
    if "default stream" in problem.message:
        return _on_a_side_stream(problem, region)
    block, side = edits.body(region.at), edits.fork_and_join(region.at)
    if region.kind != "graph" or block is None or side is None or _moves_on(region) or _leaves(block[1]):
        return None
    inside = (f"    {line}" if line else "" for line in block[1])
    made = edits.before(_ahead(region.at), *side[0], *inside, side[1])
    return edits.fix("run the captured code once before, on a side stream", made, safe=False)


def _on_a_side_stream(problem: Problem, region: Region) -> Fix | None:
    """The loop that warms up, or the call that does, in the function that captures."""
    place = next((n.at for n in problem.notes if n.message.startswith("warm-up backward")), None)
    backward = next((f for f in region.before if isinstance(f, Op) and f.at == place and f.region is None), None)
    if place is None or backward is None:
        return None
    at = place
    if backward.function != region.function:
        if len(backward.chain) <= region.depth:
            return None
        at = backward.chain[region.depth].at
        if at.path != region.at.path:
            return None
    loops = [h for h in edits.headers(at) if edits.text(h).startswith(("for ", "while "))]
    if not loops and at == place:
        return None  # the forward stands on another line
    whole = loops[-1] if loops else at
    side = edits.fork_and_join(region.at)
    if side is None or not _ends_before(whole, region.at):
        return None
    made = edits.wrap(whole, side[0], side[1:])
    return edits.fix("warm up on a side stream", made, safe=False)


def _ends_before(at: Location, other: Location) -> bool:
    block = edits.body(at)
    end = block[0].end_line if block is not None else at.span.end_line
    return at.path == other.path and end < other.span.line


def _leaves(lines: list[str]) -> bool:
    """Whether the captured block hands control to somebody else, which it must do once."""
    return any(
        re.match(r"\s*(?:return|yield|break|continue|await|raise)\b|.*\b(?:yield|await)\b", line) for line in lines
    )


#: Writes that leave what a second run of the same code would leave.
_ANEW = ("copy_", "fill_", "zero_", "setitem", "index_copy_", "out=", "normal_", "uniform_", "scatter_")


def _moves_on(region: Region) -> bool:
    """Whether one run more of the captured code is one step more: a trained weight, a cursor, a running sum."""
    for fact in region.captured:
        if isinstance(fact, Op) and fact.name.endswith(".step") and is_optimizer(fact.receiver):
            return True
        if isinstance(fact, Write) and fact.how not in _ANEW and queries.storages(fact.target, 1) & set(region.writes):
            return True
    return False


def _ahead(at: Location) -> Location:
    """In front of what prepares the capture: gradients that are dropped there must be dropped behind the warm-up."""
    while (line := edits.previous(at)) is not None and edits.headers(line) == edits.headers(at):
        if not re.search(r"\bzero_grad\(|=\s*[\w.]*CUDAGraph\(|\bsynchronize\(\)$", edits.text(line)):
            break
        at = line
    return at
