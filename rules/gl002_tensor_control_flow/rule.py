"""Branches on values of CUDA tensors under a capture: there is no value yet, and a graph has no branches."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.doubt import CAPTURING, certainty, once, problem, spelled
from graphlint.fact import HostRead, Op, Truth
from graphlint.finding import Problem
from graphlint.knowledge import operators
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Host, Tensor, options, tensors

_INSTEAD = {
    "assert": "use `torch._assert_async`",
    "while": "run a fixed number of rounds, or decide between replays",
    "and": "use `&`",
    "or": "use `|`",
    "not": "use `~` or `logical_not`",
    "comparison": "write it as two comparisons joined by `&`",
    "max": "use `torch.maximum`",
    "min": "use `torch.minimum`",
    "any": "use `Tensor.any`",
    "all": "use `Tensor.all`",
    "sorted": "use `torch.sort`",
    "in": "use `torch.isin`, or `(x == v).any()`",
    "comprehension": "multiply by a mask instead of filtering",
}
_HOW = {"max": "compares CUDA tensors", "min": "compares CUDA tensors", "sorted": "compares CUDA tensors"}


@rule("GL002", "tensor-control-flow", "error", "Python branches on a CUDA tensor's value inside a capture")
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    reads: dict[Location, bool] = {}
    for fact in region.captured:
        if isinstance(fact, HostRead):
            for tensor in tensors(fact.value, 1):
                doubt = certainty(tensor, region.settings)
                if doubt != "no":
                    reads[fact.at] = reads.get(fact.at, False) or doubt == "sure"
        elif isinstance(fact, Op) and isinstance(fact.result, Host) and fact.result.source == "read":
            call = operators.judge(fact.name, fact.receiver, fact.args, fact.kwargs)
            if call is not None and call.rule == "host-sync":
                reads[fact.at] = call.sure
        elif isinstance(fact, Truth) and fact.decided is None:
            yield from _truth(region, fact, reads)


def _truth(region: Region, fact: Truth, reads: dict[Location, bool]) -> Iterator[Problem]:
    text = spelled(fact.text, fact.op)
    instead = _INSTEAD.get(fact.op, "use `torch.where`")
    for option in options(fact.value):
        if isinstance(option, Tensor):
            doubt = certainty(option, region.settings)
            if doubt == "no" or (doubt == "likely" and not option.sure):
                continue
            how = _HOW.get(fact.op, f"{_verb(fact.op)} on a {'CUDA ' if doubt == 'sure' else ''}tensor's value")
            yield problem(region, fact, f"`{text}` {how}, which does not exist during a capture: {instead}", doubt)
            return
        if isinstance(option, Host) and option.source == "read" and option.read_at in reads:
            doubt = "sure" if reads[option.read_at] else "likely"
            message = (
                f"`{text}` {_verb(fact.op)} on a number read from the GPU, and the graph keeps one branch: {instead}"
            )
            yield problem(region, fact, message, doubt)
            return


def _verb(op: str) -> str:
    return {"assert": "asserts", "while": "loops", "comprehension": "filters"}.get(op, "branches")
