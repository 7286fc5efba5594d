"""What is kept of a compiled function's outputs is a copy; gradients that accumulate have memory of their own."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Bind, Keep, Op
from graphlint.finding import Fix, Problem
from graphlint.places import is_optimizer
from graphlint.region import Region
from graphlint.value import Instance, Tensor, Unknown, options


def fix(problem: Problem, region: Region) -> Fix | None:
    if problem.message.startswith("gradients accumulate from None"):
        return _own_gradients(problem, region)
    if "compiled with CUDA graphs of its own" in problem.message:
        return _plainly_compiled(problem, region)
    if not any(word in problem.message for word in ("clone", "overwrite")):
        return None
    kept = edits.kept_value(problem.at)
    if kept is None or edits.unpacked(problem.at) or not _is_tensor(problem, region):
        return None
    made = edits.method(kept, "clone()")
    return edits.fix("keep a copy: the next run overwrites the output", made, safe=False)


def _is_tensor(problem: Problem, region: Region) -> bool:
    """Whether what is kept here is a tensor as far as is known."""
    here = [f for f in region.life if f.at.path == problem.at.path and f.at.line == problem.at.line]
    kept = [f for f in here if isinstance(f, Keep)]
    values = [f.value for f in (kept or here) if isinstance(f, (Bind, Keep))]
    return all(isinstance(o, (Tensor, Unknown)) for v in values if v is not None for o in options(v))


def _own_gradients(problem: Problem, region: Region) -> Fix | None:
    """Where the gradients were dropped last, zeroed ones are put."""
    import libcst

    backward = next((f for f in region.life if f.at == problem.at and f.region is None), None)
    cleared = [
        f
        for f in region.life
        if isinstance(f, Op) and f.name.endswith(".zero_grad") and backward is not None and f.order < backward.order
    ]
    call = edits.expression(cleared[-1].at) if cleared else None
    if not isinstance(call, libcst.Call) or not isinstance(call.func, libcst.Attribute):
        return None
    owner = edits.code(call.func.value)
    made = edits.zeroed_gradients(cleared[-1].at, owner, optimizer=is_optimizer(cleared[-1].receiver))
    return edits.fix("give the parameters gradients of their own to add to", made, safe=False)


def _plainly_compiled(problem: Problem, region: Region) -> Fix | None:
    """Without the mode that captures: the graph around it records its kernels."""
    for fact in region.captured:
        if fact.at == problem.at and isinstance(fact, Op) and isinstance(fact.receiver, Instance):
            made = fact.receiver.made
            if made is not None and "mode" in edits.text(made):
                return edits.fix(
                    "compile it without graphs of its own", edits.without_argument(made, "mode"), safe=False
                )
    return None
