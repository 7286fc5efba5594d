"""Numbers of a captured optimizer live on the GPU; modes are set before the capture."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location


def fix(problem: Problem, region: Region) -> Fix | None:
    if "learning rate" in problem.message:
        return _rate(problem)
    text = edits.text(problem.at).strip()
    if text.endswith((".eval()", ".train()", ".train(False)", ".train(True)")):
        owner, other = (name.rpartition(".")[0] for name in (problem.function, region.function))
        if problem.function == region.function or (text.startswith("self.") and owner == other != ""):
            made = (edits.delete(problem.at), edits.before(region.at, text))
            return edits.fix("set the mode before the capture, which keeps it", *made, safe=False)
    return None


def _rate(problem: Problem) -> Fix | None:
    """`lr=0.1` as a tensor, and what sets it later as a fill of that tensor."""
    import libcst

    call = edits.expression(problem.at)
    if not isinstance(call, libcst.Call):
        return None
    given = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "lr"), None)
    if given is None or isinstance(given, libcst.Call):
        return None
    made = [edits.argument(problem.at, "lr", f'torch.tensor({edits.code(given)}, device="cuda")')]
    for note in problem.notes:
        if "rate changes" in note.message:
            made += _filled(note.at)
    return edits.fix("keep the learning rate in a tensor that the graph reads", *made, safe=False)


def _filled(at: Location) -> list[Edit | None]:
    import libcst

    for place, node in edits.inner(at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = edits.code(node.targets[0].target)
            return [edits.rewrite(place, f"{target}.fill_({edits.code(node.value)})")]
        if isinstance(node, libcst.AugAssign):
            return [None] if edits.code(node.operator).strip() not in ("*=", "+=", "-=", "/=") else []
    return []
