"""New values are copied into the memory that the graph reads."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Bind
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.value import Tensor


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Call) and edits.code(node.func).endswith("load_state_dict"):
            made = edits.without_argument(at, "assign")
            return edits.fix("copy into the parameters that the graph reads", made, safe=True)
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target, value = edits.code(node.targets[0].target), edits.code(node.value)
            if isinstance(node.targets[0].target, (libcst.Tuple, libcst.List)):
                return None
            if not target.endswith(".data") and not _is_tensor(problem, region):
                return None
            return edits.fix(
                "copy into the tensor that the graph reads", edits.rewrite(at, f"{target}.copy_({value})"), safe=False
            )
    return None


def _is_tensor(problem: Problem, region: Region) -> bool:
    """Whether what is bound here, and what it takes the place of, are tensors as far as is known."""
    bound = [
        f for f in region.life if isinstance(f, Bind) and f.at.line == problem.at.line and f.at.path == problem.at.path
    ]
    # A line that also makes the first tensor has nothing to copy into then.
    return bool(bound) and all(isinstance(f.value, Tensor) and isinstance(f.old, Tensor) for f in bound)
