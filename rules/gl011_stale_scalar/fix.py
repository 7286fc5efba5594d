"""Numbers of a captured optimizer live on the GPU; modes are set before the capture."""

from __future__ import annotations

from graphlint import device_number, edits, queries
from graphlint.fact import Bind, Op, Operator
from graphlint.finding import Edit, Fix, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Instance, Mapping, Place, Sequence, origins, tensors


def fix(problem: Problem, region: Region) -> Fix | None:
    if "learning rate" in problem.message:
        return _rate(problem, region)
    if problem.message.startswith("autocast around a replay"):
        return _captured_in_it(problem, region)
    if problem.message.startswith("a CPU scalar tensor"):
        return _made_on_the_gpu(problem, region)
    if problem.message.endswith("use a device tensor and `fill_()`"):
        return _on_the_device(problem, region) or _group_rate(problem, region)
    text = edits.text(problem.at).strip()
    if text.endswith((".eval()", ".train()", ".train(False)", ".train(True)")):
        owner, other = (name.rpartition(".")[0] for name in (problem.function, region.function))
        if problem.function == region.function or (text.startswith("self.") and owner == other != ""):
            made = edits.move(problem.at, region.at)
            return edits.fix("set the mode before the capture, which keeps it", *made, safe=False)
    return None


def _captured_in_it(problem: Problem, region: Region) -> Fix | None:
    """The block that stands around the replay around the capture, too, if its arguments mean the same there."""
    import libcst

    block = edits.expression(problem.at)
    if region.kind != "graph" or not isinstance(block, libcst.Call):
        return None
    torch = edits.torch_name(region.at.path)
    values = [edits.code(a.value) for a in block.args]
    plain = all(v.startswith((f"{torch}.", '"', "'")) or v in ("True", "False") for v in values)
    if torch is None or not plain or not edits.code(block.func).startswith(f"{torch}."):
        return None
    made = edits.insert(region.at, f", {edits.text(problem.at)}", end=True)
    return edits.fix("capture in the same mode as the replay seems to have", made, safe=False)


def _on_the_device(problem: Problem, region: Region) -> Fix | None:
    """The number is kept in a tensor, which the graph reads anew at each replay."""
    changed = {(f.place.owner, f.place.name) for f in region.after if isinstance(f, Bind)}
    for fact in region.captured:
        if fact.at != problem.at or not isinstance(fact, Operator):
            continue
        for operand in fact.operands:
            if operand.place is not None and (operand.place.owner, operand.place.name) in changed:
                made = device_number.rewrites(region, operand.place)
                return (
                    edits.fix("keep the number in a tensor that the graph reads", *made, safe=False) if made else None
                )
    return None


def _made_on_the_gpu(problem: Problem, region: Region) -> Fix | None:
    """The scalar is made on the device in the first place, so that what is written to it is seen."""
    for fact in region.captured:
        for value in queries.operands(fact) if fact.at == problem.at else ():
            for scalar in tensors(value, 0):
                if scalar.device == "cpu" and scalar.shape == () and scalar.storage.made is not None:
                    made = edits.made_on(scalar.storage.made, '"cuda"')
                    return edits.fix("make the scalar on the GPU", made, safe=False)
    return None


def _group_rate(problem: Problem, region: Region) -> Fix | None:
    """An optimizer of the user's own gets its rate as a tensor; schedulers fill it then."""
    for fact in region.captured:
        if fact.at != problem.at or not isinstance(fact, (Operator, Op)):
            continue
        scaled = isinstance(fact, Op)
        for value in (
            [fact.kwargs["alpha"]] if isinstance(fact, Op) and "alpha" in fact.kwargs else queries.operands(fact)
        ):
            for place in origins(value):
                built = _optimizer(region, place) if place.name == "lr" else None
                if built is not None and (scaled or value.place is not None):
                    return _rate_of(region, built, *([_multiplied(problem.at)] if scaled else []))
    return None


def _multiplied(at: Location) -> Edit | None:
    """`x.add_(y, alpha=a)`, which wants a number, as `x.add_(y * a)`."""
    import libcst

    node = edits.expression(at)
    if not isinstance(node, libcst.Call) or len(node.args) != 2 or not isinstance(node.func, libcst.Attribute):
        return None
    first, second = node.args
    if first.keyword is not None or second.keyword is None or second.keyword.value != "alpha":
        return None
    x, a = (code if edits.is_primary(code) else f"({code})" for code in (edits.code(n.value) for n in node.args))
    return edits.replace(at, f"{edits.code(node.func)}({x} * {a})")


def _optimizer(region: Region, place: Place) -> Instance | None:
    """The optimizer whose group holds this rate."""
    for fact in region.captured:
        for value in (getattr(fact, "receiver", None), *getattr(fact, "args", ())):
            if isinstance(value, Instance) and place.owner in _groups(value):
                return value
    return None


def _groups(optimizer: Instance) -> list[int]:
    groups = optimizer.attrs.get("param_groups")
    return [g.id for g in groups.items if isinstance(g, Mapping)] if isinstance(groups, Sequence) else []


def _rate(problem: Problem, region: Region) -> Fix | None:
    for fact in region.captured:
        if isinstance(fact, Op) and isinstance(fact.receiver, Instance) and fact.receiver.made == problem.at:
            return _rate_of(region, fact.receiver)
    return None


def _rate_of(region: Region, optimizer: Instance, *more: Edit | None) -> Fix | None:
    """`lr=0.1` as a tensor, and whatever sets it later as a fill of that tensor."""
    import libcst

    built, groups = optimizer.made, _groups(optimizer)
    torch = edits.torch_name(built.path) if built is not None else None
    if built is None or torch is None or len(groups) > 1 or _several(optimizer):
        return None  # groups would share the tensor
    call = edits.expression(built)
    if not isinstance(call, libcst.Call):
        return None
    given = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "lr"), None)
    if given is None or isinstance(given, libcst.Call):
        return None
    values = {"lr": f'{torch}.tensor({edits.code(given)}, device="cuda")'}
    made = [edits.argument(built, "lr", values["lr"]), *more]
    if optimizer.external.endswith(".SGD"):
        made.append(edits.argument(built, "fused", "True"))  # the only way in which SGD reads it on the GPU
    places = {
        f.at: None for f in region.life if isinstance(f, Bind) and f.place.owner in groups and f.place.name == "lr"
    }
    for at in places:
        made += _filled(at)
    return edits.fix("keep the learning rate in a tensor that the graph reads", *made, safe=False)


def _several(optimizer: Instance) -> bool:
    """Whether the optimizer was built from a list of groups."""
    first = optimizer.args[0] if optimizer.args else optimizer.kwargs.get("params")
    return isinstance(first, Sequence) and any(isinstance(i, Mapping) for i in (*first.items, first.rest))


def _filled(at: Location) -> list[Edit | None]:
    import libcst

    if not edits.text(at) or at.path.endswith(".pyi"):
        return []
    for place, node in edits.inner(at):
        if isinstance(node, libcst.Assign) and len(node.targets) == 1:
            target = edits.code(node.targets[0].target)
            return [edits.rewrite(place, f"{target}.fill_({edits.code(node.value)})")] if "[" in target else []
        if isinstance(node, libcst.AugAssign):
            return [None] if edits.code(node.operator).strip() not in ("*=", "+=", "-=", "/=") else []
    return []
