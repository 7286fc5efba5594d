"""New values are copied into the memory that the graph reads."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Bind, Enter, Replay
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Mapping, Tensor, Unknown, Value, options

_TITLE = "copy into the tensor that the graph reads"
_GUARDS = ("torch.no_grad", "torch.inference_mode")


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if problem.message.startswith("captures the arguments of the first call"):
        return _static_arguments(region)
    if "is not copied into its static input" in problem.message:
        return _refreshed(problem)
    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.For):
            return _loop_variable(at, node)
        if isinstance(node, libcst.Call) and edits.code(node.func).endswith("load_state_dict"):
            made = edits.without_argument(at, "assign")
            return edits.fix("copy into the parameters that the graph reads", made, safe=False)
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = node.targets[0].target
            if isinstance(target, (libcst.Tuple, libcst.List)):
                return None
            return _copied(problem, region, at, edits.code(target), edits.code(node.value))
    return None


def _copied(problem: Problem, region: Region, at: Location, target: str, value: str) -> Fix | None:
    bound = [
        f for f in region.life if isinstance(f, Bind) and f.at.line == problem.at.line and f.at.path == problem.at.path
    ]
    new, old = [f.value for f in bound], [f.old for f in bound]
    if target.endswith(".data") or (bound and all(isinstance(v, Tensor) for v in (*new, *old))):
        return edits.fix(_TITLE, edits.rewrite(at, *_copy(at, target, value, bound)), safe=False)
    if bound and all(_tensors_by_name(v) for v in old) and all(_tensors_by_name(v) or _given(v) for v in new):
        name, each = edits.unused(at, "name"), edits.unused(at, "tensor")
        lines = (f"for {name}, {each} in {value}.items():", f"    {target}[{name}].copy_({each})")
        if edits.is_name(value):
            return edits.fix("copy into the tensors that the graph reads", edits.rewrite(at, *lines), safe=False)
    owner, _, attribute = target.rpartition(".")
    if not bound or not edits.is_name(owner) or not attribute or not all(isinstance(v, Tensor) for v in new):
        return None
    if not all(v is None or isinstance(v, Tensor) or _nothing(v) for v in old) or _emptied(region, bound):
        return None
    # The line that makes the tensor first is the one that replaces it later.
    either = (
        f'if getattr({owner}, "{attribute}", None) is None:',
        f"    {target} = {value}",
        "else:",
        *(f"    {line}" for line in _copy(at, target, value, bound)),
    )
    return edits.fix(_TITLE, edits.rewrite(at, *either), safe=False)


def _copy(at: Location, target: str, value: str, bound: list[Bind]) -> list[str]:
    """Lines that copy `value` into `target`; autograd must not see what is done to a parameter."""
    import libcst

    node = edits.parsed(value)
    if isinstance(node, libcst.Call) and node.args:
        name = edits.code(node.func).rpartition(".")[2]
        if name == "zeros_like" and edits.code(node.args[0].value) == target:
            return [f"{target}.zero_()"]
        if name == "Parameter":
            value = edits.code(node.args[0].value)
    leaf = any(isinstance(f.old, Tensor) and f.old.storage.kind == "parameter" for f in bound)
    guarded = all(any(c.name in _GUARDS for c in f.contexts) for f in bound)
    torch = edits.torch_name(at.path)
    if leaf and not guarded and torch is not None and not target.endswith(".data"):
        return [f"with {torch}.no_grad():", f"    {target}.copy_({value})"]
    return [f"{target}.copy_({value})"]


def _loop_variable(at: Location, loop: edits.ForNode) -> Fix | None:
    """`for x in queue:` as a loop over something else, which is copied into `x` first."""
    import libcst

    first = edits.first_inside(at)
    if not isinstance(loop.target, libcst.Name) or first is None:
        return None
    name = loop.target.value
    new = edits.unused(at, f"new_{name}")
    place = next((place for place, node in edits.inner(at) if node is loop.target), None)
    if place is None:
        place = next((p for p, n in edits.inner(at) if isinstance(n, libcst.Name) and n.value == name), None)
    made = (edits.replace(place, new) if place is not None else None, edits.before(first, f"{name}.copy_({new})"))
    return edits.fix(_TITLE, *made, safe=False)


def _refreshed(problem: Problem) -> Fix | None:
    """`self.b.copy_(b)` in front of the replay, as the other inputs have it."""
    import libcst

    name = problem.message.split("`")[1]
    made = next((n.at for n in problem.notes if n.message.startswith("the static copy of")), None)
    for _, node in edits.inner(made) if made is not None else ():
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = edits.code(node.targets[0].target)
            if edits.is_name(target) and name.isidentifier():
                line = f"{target}.copy_({name})"
                return edits.fix("copy it into its static input, too", edits.before(problem.at, line), safe=False)
    return None


def _static_arguments(region: Region) -> Fix | None:
    """Static copies of the tensor arguments, which the capture reads and each later call fills."""
    body = edits.body(region.at)
    entered = [f for f in region.before if isinstance(f, Enter) and f.name == region.function]
    replays = {
        f.at: None for f in region.life if isinstance(f, Replay) and f.function == region.function and f.region is None
    }
    if body is None or not entered or not replays or "self" not in entered[-1].given:
        return None
    given = {n for n, v in entered[-1].given.items() if isinstance(v, Tensor)}
    made: list[Edit | None] = []
    used: dict[str, str] = {}
    for place, node in edits.names(Location(region.at.path, body[0])):
        if node in given:
            static = used.setdefault(node, f"self.{edits.unused(region.at, f'static_{node}')}")
            made.append(edits.replace(place, static))
    if not used:
        return None
    made.append(edits.before(region.at, *(f"{static} = {name}.clone()" for name, static in used.items())))
    for at in replays:
        made.append(edits.before(at, *(f"{static}.copy_({name})" for name, static in used.items())))
    return edits.fix("copy the arguments into static inputs before each replay", *made, safe=False)


def _tensors_by_name(value: Value | None) -> bool:
    """Whether a value is a plain dict of tensors."""
    return (
        isinstance(value, Mapping)
        and value.kind == "dict"
        and all(isinstance(v, Tensor) for v in (*value.items.values(), *([value.rest] if value.rest else [])))
    )


def _given(value: Value | None) -> bool:
    """Whether a value is a parameter, of which nothing is known."""
    return isinstance(value, Unknown)


def _nothing(value: Value) -> bool:
    return any(isinstance(o, Const) and o.value is None for o in options(value))


def _emptied(region: Region, bound: list[Bind]) -> bool:
    """Whether an attribute is emptied in between: what is there then is not what the graph reads."""
    places = {f.place for f in bound}
    emptied = (f for f in region.after if isinstance(f, Bind) and f.place in places and f.region is None)
    return any(f.how.startswith("del") or f.value is None or _nothing(f.value) for f in emptied)
