"""Checks that read back are turned off, library calls that wait become those that do not, numbers stay tensors."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location

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
        if name in _UNCHECKED and path.endswith("linalg"):
            other, result = _UNCHECKED[name]
            arguments = ", ".join(edits.code(a).rstrip(" ,") for a in node.args)
            new = f"{path}.{other}({arguments}){result}"
            return edits.fix("decompose without the check on the host", edits.replace(at, new), safe=True)
    return _told(problem, region) or _operand(problem, nodes)


def _told(problem: Problem, region: Region) -> Fix | None:
    """A statement that only prints or logs goes; behind the capture, if it stands in the same function."""
    import libcst

    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Expr) and isinstance(node.value, libcst.Call):
            name = edits.code(node.value.func)
            if name != "print" and not name.lower().startswith(("log.", "logger.", "logging.", "_logger.", "self.log")):
                return None
            if problem.function == region.function and (later := edits.after_block(region.at, edits.code(node.value))):
                return edits.fix("tell it after the capture", edits.delete(at), later, safe=False)
            return edits.fix("remove the line: it would run once, at the capture", edits.delete(at), safe=False)
    return None


def _operand(problem: Problem, nodes: list[tuple[Location, edits.Node]]) -> Fix | None:
    """`float(t) * x` and `t.item() * x` as `t * x`: arithmetic takes the tensor itself."""
    import libcst

    operands: list[edits.Node] = []
    for _, node in nodes:
        if isinstance(node, libcst.BinaryOperation):
            operands += [node.left, node.right]
        elif isinstance(node, libcst.Return) and node.value is not None:
            operands.append(node.value)
    for at, node in nodes:
        if not isinstance(node, libcst.Call) or not any(node.deep_equals(o) for o in operands):
            continue
        if edits.code(node.func) == "float" and len(node.args) == 1:
            value = edits.code(node.args[0].value)
        elif isinstance(node.func, libcst.Attribute) and node.func.attr.value == "item" and not node.args:
            value = edits.code(node.func.value)
        else:
            continue
        new = value if edits.is_primary(value) else f"({value})"
        return edits.fix("calculate with the tensor itself", edits.replace(at, new), safe=False)
    return None
