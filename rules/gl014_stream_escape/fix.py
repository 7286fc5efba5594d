"""Side streams are forked from the capture and joined to it again."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    stream = edits.stream_text(problem.at)
    if stream is None or any("default_stream(" in value for value in edits.assigned(problem.at.path, stream)):
        # The default stream cannot take part in a capture, joined or not.
        return None
    made: list[Edit | None] = []
    join = f"torch.cuda.current_stream().wait_stream({stream})"
    fork = f"{stream}.wait_stream(torch.cuda.current_stream())"
    if not edits.stands_before(problem.at, fork):
        made.append(edits.before(problem.at, fork))
    if not edits.stands_after_block(problem.at, join):
        made.append(edits.after_block(problem.at, join))
    return edits.fix("fork the side stream from the capture and join it", *made, safe=False)
