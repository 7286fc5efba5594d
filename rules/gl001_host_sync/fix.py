"""Checks that read back are turned off, library calls that wait become those that do not, numbers stay tensors."""

from __future__ import annotations

import re

from graphlint import edits
from graphlint.fact import Index, Replay
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Tensor, options

#: Decompositions that check on the host, the same without, and how its result is spelled.
_UNCHECKED = {"inv": ("inv_ex", ".inverse"), "cholesky": ("cholesky_ex", ".L"), "solve": ("solve_ex", ".result"),
              "lu_factor": ("lu_factor_ex", "[:2]"), "ldl_factor": ("ldl_factor_ex", "[:2]")}  # fmt: skip
_DISTRIBUTIONS = frozenset(
    {
        "Bernoulli",
        "Beta",
        "Binomial",
        "Categorical",
        "Cauchy",
        "Dirichlet",
        "Exponential",
        "Gamma",
        "Geometric",
        "Gumbel",
        "HalfNormal",
        "Independent",
        "Laplace",
        "LogNormal",
        "Multinomial",
        "MultivariateNormal",
        "Normal",
        "OneHotCategorical",
        "Poisson",
        "StudentT",
        "Uniform",
        "VonMises",
    }
)


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    nodes = edits.inner(problem.at)
    for at, node in nodes:
        if not isinstance(node, libcst.Call):
            continue
        path, _, name = edits.code(node.func).rpartition(".")
        if name in _DISTRIBUTIONS and "valid" in problem.message:
            return edits.fix("leave the values unchecked", edits.argument(at, "validate_args", "False"), safe=True)
        if edits.code(node.func).endswith(("clip_grad_norm_", "get_total_norm")):
            made = edits.without_argument(at, "error_if_nonfinite")
            return edits.fix("leave the norm unchecked", made, safe=False)
        if name in ("masked_fill", "masked_fill_") and at == problem.at and len(node.args) == 2:
            return _filled(at, node, path, name)
        if name == "allclose" and at == problem.at:
            arguments = ", ".join(edits.code(a).rstrip(" ,") for a in node.args)
            made = edits.replace(at, f"{path}.isclose({arguments}).all()")
            return edits.fix("compare on the GPU", made, safe=False)
        if name == "synchronize" and not node.args and at == problem.at:
            return _not_synchronised(problem, region, at)
        plain = not any(a.star or (a.keyword is not None and a.keyword.value == "out") for a in node.args)
        if name in _UNCHECKED and path.endswith("linalg") and plain:
            other, result = _UNCHECKED[name]
            arguments = ", ".join(edits.code(a).rstrip(" ,") for a in node.args)
            new = f"{path}.{other}({arguments}){result}"
            return edits.fix("decompose without the check on the host", edits.replace(at, new), safe=True)
    return (
        _indexed(problem, region)
        or _told(problem, region)
        or _after_the_replay(problem, region, nodes)
        or _operand(problem, nodes)
    )


def _indexed(problem: Problem, region: Region) -> Fix | None:
    """`table[position]`, which reads a 0-dim position, as a selection by it."""
    import libcst

    found = [f for f in region.captured if isinstance(f, Index) and f.at == problem.at]
    node = edits.expression(problem.at)
    if not found or not isinstance(node, libcst.Subscript) or len(node.slice) != 1:
        return None
    for fact in found:
        positions = options(fact.index)
        if not all(isinstance(o, Tensor) and o.shape == () and o.dtype in ("int64", "int32") for o in positions):
            return None
    base, position = edits.code(node.value), edits.code(node.slice[0])
    if not edits.is_primary(position):
        position = f"({position})"
    new = f"{base}.index_select(0, {position}.view(1)).squeeze(0)"
    return edits.fix("select on the GPU", edits.replace(problem.at, new), safe=False)


def _filled(at: Location, node: edits.CallNode, owner: str, name: str) -> Fix | None:
    """`x.masked_fill(m, t)`, which reads `t`, as `torch.where(m, t, x)`."""
    torch = edits.torch_name(at.path)
    if torch is None or any(a.keyword is not None or a.star for a in node.args):
        return None
    mask, value = (edits.code(a.value) for a in node.args)
    chosen = f"{torch}.where({mask}, {value}, {owner})"
    new = chosen if name == "masked_fill" else f"{owner}.copy_({chosen})"
    return edits.fix("choose on the GPU", edits.replace(at, new), safe=False)


def _not_synchronised(problem: Problem, region: Region, at: Location) -> Fix | None:
    """A statement that waits for the GPU goes behind the capture, or is left to eager runs."""
    import libcst

    if not any(isinstance(n, libcst.Expr) for _, n in edits.inner(at)):
        return None
    if problem.function == region.function:
        return edits.fix("wait behind the capture", *edits.move_behind(at, region.at), safe=False)
    torch = edits.torch_name(at.path)
    made_ = edits.wrap(at, [f"if not {torch}.cuda.is_current_stream_capturing():"]) if torch is not None else None
    return edits.fix("wait in eager runs only", made_, safe=False)


def _told(problem: Problem, region: Region) -> Fix | None:
    """A statement that only prints or logs goes; behind the capture, if it stands in the same function."""
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Expr) and isinstance(node.value, libcst.Call):
            name = edits.code(node.value.func)
            if name != "print" and not name.lower().startswith(("log.", "logger.", "logging.", "_logger.", "self.log")):
                return None
            return _later(problem, region, at)
    return None


def _after_the_replay(problem: Problem, region: Region, nodes: list[tuple[Location, edits.Node]]) -> Fix | None:
    """`value = loss.item()` in the capture block itself moves behind the replay in the same function."""
    import libcst

    block = edits.body(region.at)
    replay = next((f for f in region.after if isinstance(f, Replay) and f.function == region.function), None)
    whole = next(((at, node) for at, node in nodes if isinstance(node, libcst.Assign)), None)
    if block is None or replay is None or whole is None or problem.function != region.function:
        return None
    at, node = whole
    target = node.targets[0].target if isinstance(node, libcst.Assign) else None
    inside = block[0].line <= at.span.line <= block[0].end_line
    if not inside or not isinstance(target, libcst.Name) or len(edits.headers(at)) != len(edits.headers(region.at)) + 1:
        return None
    if any(name == target.value for line in edits.rest_of_body(at) for _, name in edits.names(line)):
        return None
    made = (edits.delete(at), edits.after(replay.at, *edits.lines(at)))
    return edits.fix("read it after the replay", *made, safe=False)


def _later(problem: Problem, region: Region, at: Location) -> Fix | None:
    """Behind the replay in the same function, else in eager runs only."""
    if problem.function == region.function:
        replay = next((f for f in region.after if isinstance(f, Replay) and f.function == region.function), None)
        moved = edits.lines(at)
        if replay is not None and moved and (later := edits.after(replay.at, *moved)):
            return edits.fix("tell it after the replay", edits.delete(at), later, safe=False)
        return None
    torch = edits.torch_name(at.path)
    if torch is None:
        return None
    made = edits.wrap(at, [f"if not {torch}.cuda.is_current_stream_capturing():"])
    return edits.fix("tell it in eager runs only; replays run no Python", made, safe=False)


def _operand(problem: Problem, nodes: list[tuple[Location, edits.Node]]) -> Fix | None:
    """`float(t) * x` and `t.item() * x` as `t * x`: arithmetic takes the tensor itself."""
    import libcst

    operands: list[edits.Node] = []
    for at, node in nodes:
        if isinstance(node, libcst.BinaryOperation):
            operands += [node.left, node.right]
        elif isinstance(node, libcst.Return):
            operands += [node.value] if node.value is not None else []
        elif isinstance(node, libcst.Assign) and len(node.targets) == 1 and edits.only_calculated(at):
            operands.append(node.value)
    for at, node in nodes:
        if not isinstance(node, libcst.Call) or not any(node.deep_equals(o) for o in operands):
            continue
        value = _read(node)
        if value is not None:
            new = value if edits.is_primary(value) else f"({value})"
            return edits.fix("calculate with the tensor itself", edits.replace(at, new), safe=False)
    return _returned(problem, nodes)


def _read(node: edits.CallNode) -> str | None:
    """`t` of `float(t)` and `t.item()`."""
    import libcst

    if edits.code(node.func) == "float" and len(node.args) == 1:
        return edits.code(node.args[0].value)
    if isinstance(node.func, libcst.Attribute) and node.func.attr.value == "item" and not node.args:
        return edits.code(node.func.value)
    return None


def _returned(problem: Problem, nodes: list[tuple[Location, edits.Node]]) -> Fix | None:
    """`return t.cpu().numpy()` gives the tensor, if no caller in the file does more with it than keep it."""
    import libcst

    for _, node in nodes:
        if not isinstance(node, libcst.Return) or node.value is None:
            continue
        at = next((place for place, other in nodes if other is node.value), None)
        value: edits.ExpressionNode = node.value
        while isinstance(value, libcst.Call) and not value.args and isinstance(value.func, libcst.Attribute):
            if value.func.attr.value not in ("cpu", "numpy", "tolist"):
                break
            value = value.func.value
        name = problem.function.rpartition(".")[2]
        if at is None or value is node.value or not _only_kept(problem, name):
            return None
        made = edits.replace(at, edits.code(value))
        return edits.fix("return the tensor; read it after the replay", made, safe=False)
    return None


def _only_kept(problem: Problem, function: str) -> bool:
    """Whether every call in the file stands alone, or is all of what a name or an attribute gets."""
    import libcst

    path = problem.at.path
    for place in edits.mentions(path, rf"(?<!def )\b{re.escape(function)}\b"):
        node = next((n for at, n in edits.inner(place) if isinstance(n, (libcst.Expr, libcst.Assign))), None)
        if node is None or not isinstance(node.value, libcst.Call):
            return False
        if edits.code(node.value.func).rpartition(".")[2] != function:
            return False
        for target in node.targets if isinstance(node, libcst.Assign) else ():
            used = edits.mentions(path, rf"(?<!\.)\b{re.escape(edits.code(target.target))}\s*(?:\.|\[|[-+*/])")
            if any(at.span.line != problem.at.span.line for at in used):
                return False
    return True
