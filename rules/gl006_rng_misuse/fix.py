"""Generators are registered with the graph; Python's draws become draws on the device."""

from __future__ import annotations

from graphlint import edits
from graphlint.finding import Fix, Problem
from graphlint.region import Region
from graphlint.source import Location

_SEEDS = ("manual_seed", "manual_seed_all", "seed")


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    nodes = edits.inner(problem.at)
    for at, node in nodes:
        told = node.value if isinstance(node, libcst.Expr) else None
        if isinstance(told, libcst.Call) and edits.code(told.func).rpartition(".")[2] in _SEEDS:
            return _seeded_outside(problem, region, at)
        if not isinstance(node, libcst.Call):
            continue
        for argument in node.args:
            if argument.keyword is not None and argument.keyword.value == "generator" and "regist" in problem.message:
                return _registered(problem, region, edits.code(argument.value))
        torch = edits.torch_name(at.path)
        drawn = _on_device(edits.code(node.func), [edits.code(a.value) for a in node.args], torch or "torch")
        if drawn is not None and not any(a.keyword or a.star for a in node.args):
            outer = next((place for place, other in nodes if _converts(other, node)), at)
            if torch is None or not (edits.is_operand(outer) or edits.only_calculated(outer)):
                return None  # a number is needed there
            return edits.fix("draw on the device, anew at each replay", edits.replace(outer, drawn), safe=False)
    return None


def _seeded_outside(problem: Problem, region: Region, at: Location) -> Fix | None:
    """A statement that seeds goes before the capture, or is left to eager runs."""
    if problem.function == region.function:
        return edits.fix("seed before the capture", *edits.move(at, region.at), safe=False)
    torch = edits.torch_name(at.path)
    made = edits.wrap(at, [f"if not {torch}.cuda.is_current_stream_capturing():"]) if torch is not None else None
    return edits.fix("seed in eager runs only; replays go on with the generator", made, safe=False)


def _converts(node: edits.Node, call: edits.CallNode) -> bool:
    """Whether `node` is `float(call)`: a tensor is used as it is."""
    import libcst

    return (
        isinstance(node, libcst.Call)
        and edits.code(node.func) == "float"
        and len(node.args) == 1
        and node.args[0].value.deep_equals(call)
    )


def _registered(problem: Problem, region: Region, generator: str) -> Fix | None:
    graph = edits.graph_text(region.at)
    owner, other = (name.rpartition(".")[0] for name in (problem.function, region.function))
    same = problem.function == region.function or (generator.startswith("self.") and owner == other != "")
    if not same:
        spelled = _outside(problem, region, generator)
        if spelled is None:
            return None
        generator = spelled
    if graph is None:
        return None
    line = f"{graph}.register_generator_state({generator})"
    return edits.fix("register the generator with the graph", edits.before(region.at, line), safe=True)


def _outside(problem: Problem, region: Region, generator: str) -> str | None:
    """How the function that captures spells `self.x` of an object that it calls directly."""
    import libcst

    calls = [note for note in problem.notes if note.message.endswith("called here")]
    if len(calls) != 1 or not generator.startswith("self."):
        return None
    call = edits.expression(calls[0].at)
    if not isinstance(call, libcst.Call):
        return None
    owner = edits.code(call.func)
    method = problem.function.rpartition(".")[2]
    owner = owner.removesuffix(f".{method}")
    return owner + generator.removeprefix("self") if edits.is_name(owner) else None


def _on_device(function: str, arguments: list[str], torch: str) -> str | None:
    match function, arguments:
        case (("random.random" | "np.random.rand" | "numpy.random.rand"), []):
            return f'{torch}.rand((), device="cuda")'
        case (("random.uniform" | "np.random.uniform" | "numpy.random.uniform"), [low, high]):
            return f'{torch}.empty((), device="cuda").uniform_({low}, {high})'
        case (
            ("random.gauss" | "random.normalvariate" | "np.random.normal" | "numpy.random.normal"),
            [mean, deviation],
        ):
            return f'{torch}.empty((), device="cuda").normal_({mean}, {deviation})'
        case (("np.random.randn" | "numpy.random.randn"), []):
            return f'{torch}.randn((), device="cuda")'
    return None
