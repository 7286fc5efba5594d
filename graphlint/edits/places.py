"""What fixes of several rules look for and write: graphs, streams, kept values, side streams, gradients."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphlint.edits.blocks import function_lines
from graphlint.edits.making import rewrite
from graphlint.edits.reading import mentions, statement, text, torch_name
from graphlint.edits.syntax import _within, code, expression, inner, is_name, names
from graphlint.finding import Edit
from graphlint.source import Location

if TYPE_CHECKING:
    import libcst

    from graphlint.edits.syntax import ExpressionNode, Node, _within, names


def graph_text(at: Location) -> str | None:
    """How the source spells the graph of the capture at `at`: `torch.cuda.graph(g)`, `g.capture_begin()`."""
    import libcst

    node = expression(at)
    if not isinstance(node, libcst.Call):
        return None
    if isinstance(node.func, libcst.Attribute) and node.func.attr.value == "capture_begin":
        return code(node.func.value)
    for number, argument_ in enumerate(node.args):
        name = argument_.keyword.value if argument_.keyword is not None else None
        if (number == 0 and name is None and not argument_.star) or name == "cuda_graph":
            value = argument_.value
            return code(value) if isinstance(value, (libcst.Name, libcst.Attribute)) else None
    return None


def stream_text(at: Location) -> str | None:
    """How the source spells the stream of `with torch.cuda.stream(s):` around `at`."""
    import libcst

    for _, node in inner(at):
        if not isinstance(node, libcst.Call) or len(node.args) != 1:
            continue
        named = code(node.func).rpartition(".")[2] in ("stream", "StreamContext")
        if named and isinstance(node.args[0].value, (libcst.Name, libcst.Attribute)):
            return code(node.args[0].value)
    return None


_KEEPERS = ("append", "appendleft", "extend", "insert", "put", "put_nowait", "add", "setdefault", "send")


def kept_value(at: Location) -> Location | None:
    """The expression that a statement keeps: what it appends, assigns, returns, yields or collects."""
    import libcst

    wanted, nodes = _kept(at)
    if wanted is None or isinstance(wanted, (libcst.Tuple, libcst.List, libcst.Dict, libcst.Set)):
        return None
    return next((place for place, node in nodes if node is wanted), None)


def unpacked(at: Location) -> bool:
    """Whether the statement around `at` gives several names what one expression returns."""
    import libcst

    found = statement(at)
    nodes = inner(Location(at.path, found.span)) if found is not None else []
    for _, node in nodes:
        targets: list[libcst.BaseExpression] = []
        if isinstance(node, libcst.Assign) and not isinstance(node.value, (libcst.Tuple, libcst.List)):
            targets = [t.target for t in node.targets]
        elif isinstance(node, libcst.For):
            targets = [node.target]
        if any(isinstance(t, (libcst.Tuple, libcst.List)) for t in targets):
            return True
    return False


def makes_graph(at: Location) -> str | None:
    """The statement in which the function around `at`, or its file for an attribute, makes the graph captured there."""
    graph = graph_text(at)
    if graph is None:
        return None
    pattern = rf"(?<![\w.]){re.escape(graph)}(?:: [\w.]+)? = [\w.]*CUDAGraph\("
    found = mentions(at.path, pattern)
    if "." not in graph:
        found = [line for line in found if line in function_lines(at)]
    return text(found[0]) if found else None


def kept_elements(at: Location) -> list[Location]:
    """The elements of the tuple or list that a statement keeps, if it is written out there."""
    import libcst

    wanted, _ = _kept(at)
    whole = statement(at)
    if not isinstance(wanted, (libcst.Tuple, libcst.List)) or whole is None:
        return []
    every = inner(Location(at.path, whole.span))
    same = next((n for _, n in every if isinstance(n, type(wanted)) and n.deep_equals(wanted)), wanted)
    places = [next((p for p, n in every if n is element.value), None) for element in same.elements]
    return [p for p in places if p is not None] if None not in places else []


def _kept(at: Location) -> tuple[ExpressionNode | None, list[tuple[Location, Node]]]:
    """What a statement keeps, and the nodes that were looked at."""
    import libcst

    nodes = inner(at)
    whole = statement(at)
    if whole is not None and any(isinstance(node, libcst.AssignTarget) for _, node in nodes):
        nodes = inner(Location(at.path, whole.span))  # what is kept stands on the other side
    wanted: libcst.BaseExpression | None = None
    for _, node in nodes:
        if isinstance(node, (libcst.ListComp, libcst.SetComp, libcst.GeneratorExp, libcst.DictComp)):
            if wanted is None or wanted is node:
                wanted = node.value if isinstance(node, libcst.DictComp) else node.elt
        elif isinstance(node, libcst.Call) and isinstance(node.func, libcst.Attribute):
            if node.func.attr.value in _KEEPERS and node.args and wanted is None:
                wanted = node.args[-1].value
        elif isinstance(node, (libcst.Assign, libcst.AnnAssign, libcst.Return, libcst.Yield)) and wanted is None:
            value = node.value
            wanted = value if isinstance(value, libcst.BaseExpression) else None
            if isinstance(wanted, libcst.DictComp):
                wanted = wanted.value
            elif isinstance(wanted, (libcst.ListComp, libcst.SetComp, libcst.GeneratorExp)):
                wanted = wanted.elt
    return wanted, nodes


def unused(at: Location, name: str) -> str:
    """`name`, or it with a number behind, such that the function around `at` does not use it."""

    used = {word for line in function_lines(at) for word in re.findall(r"\w+", text(line))}
    return next(word for word in (name, *(f"{name}{n}" for n in range(2, len(used) + 3))) if word not in used)


def fork_and_join(at: Location) -> tuple[tuple[str, str, str], str] | None:
    """Lines that open a block on a side stream of their own, and the one that joins it; None without torch."""
    torch, side = torch_name(at.path), unused(at, "side")
    if torch is None:
        return None
    current = f"{torch}.cuda.current_stream()"
    opened = f"{side} = {torch}.cuda.Stream()", f"{side}.wait_stream({current})", f"with {torch}.cuda.stream({side}):"
    return opened, f"{current}.wait_stream({side})"


def zeroed_gradients(at: Location, owner: str, *, optimizer: bool) -> Edit | None:
    """The statement at `at` gives the parameters of a module, or of an optimizer, gradients of their own."""
    torch = torch_name(at.path)
    lines_ = [f"for parameter in {owner}.parameters():"]
    if optimizer:
        lines_ = [f"for group in {owner}.param_groups:", '    for parameter in group["params"]:']
    deep = "    " * len(lines_)
    lines_ += [f"{deep}if parameter.requires_grad:", f"{deep}    parameter.grad = {torch}.zeros_like(parameter)"]
    return rewrite(at, *lines_) if torch is not None and is_name(owner) else None


def only_calculated(at: Location) -> bool:
    """Whether the name that the assignment at `at` gives is but an operand wherever the function uses it further on.

    Of arithmetic, that is, which takes a tensor as well as a number; a comparison is told where a choice hangs on it.
    """
    import libcst

    nodes = [n for _, n in inner(at) if isinstance(n, (libcst.Assign, libcst.AnnAssign))]
    node = nodes[0] if nodes else None
    target = node.targets[0].target if isinstance(node, libcst.Assign) else getattr(node, "target", None)
    if not isinstance(target, libcst.Name):
        return False
    rest = [line for line in function_lines(at) if line.span.line != at.span.line]
    uses = [place for line in rest for place, name in names(line) if name == target.value]
    return bool(uses) and all(is_operand(place) for place in uses)


def is_operand(at: Location) -> bool:
    """Whether the expression at `at` is an operand of arithmetic or of a comparison."""
    import libcst

    kinds = (libcst.BaseExpression, libcst.BaseSmallStatement)
    around = [n for place, n in inner(at) if place != at and _within(at.span, place.span) and isinstance(n, kinds)]
    parent = around[-1] if around else None
    if isinstance(parent, libcst.BinaryOperation):
        arithmetic = (libcst.Add, libcst.Subtract, libcst.Multiply, libcst.Divide, libcst.Power)
        return isinstance(parent.operator, arithmetic)
    return isinstance(parent, libcst.Comparison)
