"""Gradients that a graph writes are zeroed in place, not dropped."""

from __future__ import annotations

from graphlint import edits
from graphlint.fact import Bind, Enter, Op
from graphlint.finding import Edit, Fix, Problem
from graphlint.places import is_optimizer
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Instance, tensors


def fix(problem: Problem, region: Region) -> Fix | None:
    import libcst

    if problem.message.startswith("`.grad` of an earlier backward is still there"):
        return _cleared(region)
    for at, node in edits.inner(problem.at):
        if isinstance(node, libcst.Call) and edits.code(node.func).endswith("zero_grad"):
            if region.kind == "graphed-callables":
                return _allocated(at, edits.code(node.func).rpartition(".")[0], _is_optimizer(problem, region))
            return edits.fix(
                "zero the gradients in place: the graph goes on writing them",
                _in_place(at, node),
                safe=True,
            )
        if isinstance(node, libcst.Assign) and edits.code(node.value) == "None" and len(node.targets) == 1:
            target = edits.code(node.targets[0].target)
            if target.endswith(".grad"):
                lines = (f"if {target} is not None:", f"    {target}.zero_()")
                return edits.fix("zero the gradient in place", edits.rewrite(at, *lines), safe=True)
    return None


def _cleared(region: Region) -> Fix | None:
    """Gradients are dropped right before the capture, by whoever holds the parameters and can be named there."""
    entered = [f for f in region.before if isinstance(f, Enter) and f.name == region.function]
    given = dict(entered[-1].given) if entered else {}
    own = given.pop("self", None)
    named = {**given, **({f"self.{n}": v for n, v in own.attrs.items()} if isinstance(own, Instance) else {})}
    if not entered:
        named = {
            f.place.name: f.value for f in region.before if isinstance(f, Bind) and f.place.kind == "global" and f.value
        }
    used = {s for s in region.inputs if s.kind == "parameter"}
    holders = [
        name
        for name, value in named.items()
        if isinstance(value, Instance)
        and (is_optimizer(value) or is_module(value))
        and used <= {t.storage for v in (value, *value.args[:1]) for t in tensors(v, 8)}
    ]
    if not holders:
        return None
    line = f"{holders[0]}.zero_grad(set_to_none=True)"
    return edits.fix("drop the gradients right before the capture", edits.before(region.at, line), safe=False)


def is_module(value: Instance) -> bool:
    """A module of torch, or of a class derived from one."""
    bases = getattr(value.cls, "external_bases", ())
    return value.external.startswith("torch.nn.") or any(b.startswith("torch.nn.") for b in bases)


def _is_optimizer(problem: Problem, region: Region) -> bool:
    facts = (
        f for f in region.life if isinstance(f, Op) and f.at.line == problem.at.line and f.at.path == problem.at.path
    )
    return any(f.name.endswith("zero_grad") and is_optimizer(f.receiver) for f in facts)


def _allocated(at: Location, owner: str, optimizer: bool) -> Fix | None:
    """Gradients of their own, since the graphed backward hands out its buffers where there are none to add to."""
    made = edits.zeroed_gradients(at, owner, optimizer=optimizer)
    return edits.fix("give the parameters gradients of their own to add to", made, safe=False)


def _in_place(at: Location, node: edits.CallNode) -> Edit | None:
    if node.args and node.args[0].keyword is None:
        return edits.replace(Location(at.path, at.span), f"{edits.code(node.func)}(set_to_none=False)")
    return edits.argument(at, "set_to_none", "False")
