"""The optimizer is built so that its step can be captured."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    built = next((note.at for note in problem.notes if note.message == "the optimizer is built here"), None)
    if built is None:
        return None
    if problem.message.startswith("`GradScaler.step`"):
        # SGD keeps no state that would have to be capturable.
        wanted = {"fused": "True"} if "`SGD`" in problem.message else {"fused": "True", "capturable": "True"}
        return edits.fix(
            "build an optimizer whose scaled step can be captured", edits.arguments(built, wanted), safe=False
        )
    if problem.message.endswith("build it with `fused=True`"):
        return edits.fix("build the optimizer with `fused=True`", edits.argument(built, "fused", "True"), safe=False)
    if "capturable=True" not in problem.message:
        return None
    made = [edits.argument(built, "capturable", "True")]
    return edits.fix("build the optimizer with `capturable=True`", *made, safe=True)
