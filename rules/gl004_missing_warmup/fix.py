"""The captured code runs once before, on a side stream."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    block = edits.body(region.at)
    if region.kind != "graph" or block is None or not any(w in problem.message for w in ("nothing ran", "never ran")):
        return None
    made = edits.before(
        region.at,
        "side = torch.cuda.Stream()",
        "side.wait_stream(torch.cuda.current_stream())",
        "with torch.cuda.stream(side):",
        *(f"    {line}" if line else "" for line in block[1]),
        "torch.cuda.current_stream().wait_stream(side)",
    )
    return edits.fix("run the captured code once before, on a side stream", made, safe=False)
