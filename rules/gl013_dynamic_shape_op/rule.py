"""Operations whose result's size depends on the data: the host has to wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.doubt import CAPTURING, Certainty, any_gpu, certainty, once, problem, spelled
from graphlint.fact import Index, Op, Write
from graphlint.finding import Problem
from graphlint.knowledge import operators
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Sequence, Tensor, Value, options

_INSTEAD = "keep the full shape and use `torch.where`, `masked_fill` or a multiplication by the mask"


@rule("GL013", "dynamic-shape-op", "error", "a result whose size depends on the data, inside a capture")
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, Op):
            found = operators.judge(fact.name, fact.receiver, fact.args, fact.kwargs)
            if found is None or found.rule != "dynamic-shape-op":
                continue
            values = [*([fact.receiver] if fact.receiver is not None else []), *fact.args]
            doubt: Certainty = "sure" if found.sure else any_gpu(values, region.settings)
            if doubt != "no":
                doubt = "sure" if found.sure else "likely"
                message = f"`{spelled(fact.text, fact.name)}` {found.why}: the capture fails; {found.advice}"
                yield problem(region, fact, message, doubt)
        elif isinstance(fact, Index) and _is_mask(fact.index) and (doubt := _on(region, fact.base, fact.index)) != "no":
            text = spelled(fact.text, "x[mask]")
            message = f"`{text}` picks rows by a mask, so its size depends on the data: the capture fails; {_INSTEAD}"
            yield problem(region, fact, message, doubt)
        elif isinstance(fact, Write) and (doubt := _masked_write(region, fact)) != "no":
            text = spelled(fact.text, "x[mask]")
            how = "counts the mask on the host: the capture fails; use `torch.where(mask, value, x)`"
            yield problem(region, fact, f"`{text} = tensor` {how}", doubt)


def _masked_write(region: Region, fact: Write) -> Certainty:
    """`x[mask] = tensor`; a number is filled in without a wait."""
    if fact.how != "setitem" or fact.index is None or not _is_mask(fact.index):
        return "no"
    if fact.source is None or not _tensor_value(fact.source):
        return "no"
    return _on(region, fact.target, fact.index)


def _on(region: Region, base: Value, index: Value) -> Certainty:
    """Where the indexed tensor is; the mask tells as well."""
    answer: Certainty = "no"
    for value in (base, *_parts(index)):
        for option in options(value):
            if isinstance(option, Tensor):
                found = certainty(option, region.settings)
                if found == "sure":
                    return "sure"
                if option.device == "cpu":
                    return "no"
                if found == "likely" and option.sure:
                    answer = "likely"
    return answer


def _parts(index: Value) -> list[Value]:
    return list(index.items) if isinstance(index, Sequence) and index.kind == "tuple" else [index]


def _is_mask(index: Value) -> bool:
    """Whether a boolean tensor is among the indices; one on the CPU is a host copy's matter."""
    return any(
        isinstance(o, Tensor) and o.dtype == "bool" and o.device != "cpu" for p in _parts(index) for o in options(p)
    )


def _tensor_value(source: Value) -> bool:
    return any(isinstance(o, Tensor) and not (o.device == "cpu" and o.shape == ()) for o in options(source))
