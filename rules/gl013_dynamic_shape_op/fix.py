"""Reductions over a masked selection, as reductions of everything with the rest made neutral."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    for at, node in edits.inner(problem.at):
        if not isinstance(node, libcst.Call):
            continue
        name = edits.code(node.func).rpartition(".")[2]
        if name in ("cross_entropy", "nll_loss") and len(node.args) == 2:
            first, second = (_selected(a.value) for a in node.args)
            if first and second and first[1] == second[1] and all(a.keyword is None for a in node.args):
                mask = second[1] if edits.is_primary(second[1]) else f"({second[1]})"
                # Selecting by a mask makes its dimensions one, so these are made one here, too.
                rows = f"{first[0]}.flatten(0, {mask}.dim() - 1)"
                labels = f"{second[0]}.masked_fill(~{mask}, -100).flatten()"
                new = f"{edits.code(node.func)}({rows}, {labels})"
                return edits.fix("let the loss ignore the other rows", edits.replace(at, new), safe=True)
        if isinstance(node.func, libcst.Attribute) and name in ("sum", "mean") and not node.args:
            found = _selected(node.func.value)
            if found and problem.at.span.line == at.span.line:
                tensor, mask = found
                new = f"torch.where({mask}, {tensor}, 0).sum()"
                if name == "mean":
                    mask = mask if edits.is_primary(mask) else f"({mask})"
                    new = f"({new} / {mask}.sum())"
                return edits.fix("reduce over all with the rest set to zero", edits.replace(at, new), safe=False)
    return None


def _selected(node: edits.ExpressionNode) -> tuple[str, str] | None:
    """(`x`, `mask`) of `x[mask]`."""
    import libcst

    if not isinstance(node, libcst.Subscript) or len(node.slice) != 1:
        return None
    index = node.slice[0].slice
    if not isinstance(index, libcst.Index) or index.star or isinstance(index.value, (libcst.Tuple, libcst.Integer)):
        return None
    return edits.code(node.value), edits.code(index.value)
