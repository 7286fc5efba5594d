"""CPU or Python data on its way to the GPU under a capture: the copy is refused, or reads freed memory at replay."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.doubt import CAPTURING, Certainty, certainty, may_have_moved, once, problem, spelled
from graphlint.fact import Index, Op, Write
from graphlint.finding import Problem
from graphlint.knowledge import forms, library, operators
from graphlint.knowledge.factories import FACTORIES
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Host, Instance, Sequence, Tensor, Value, options

_REFUSED = "the capture fails"


@rule("GL012", "host-copy", "error", "CPU or Python data is copied to the GPU inside a capture")
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, Op):
            yield from _op(region, fact)
        elif isinstance(fact, Index):
            if (what := _host_index(fact.index)) and (doubt := _where(region, fact.base)) != "no":
                message = (
                    f"`{spelled(fact.text, 'x[...]')}` indexes with {what}, which is copied to the GPU: "
                    f"{_REFUSED}; use a CUDA index tensor made before"
                )
                yield problem(region, fact, message, doubt)
        elif isinstance(fact, Write) and fact.how == "setitem" and fact.index is not None:
            yield from _setitem(region, fact, fact.index)


def _where(region: Region, value: Value | None) -> Certainty:
    for option in options(value) if value is not None else ():
        if isinstance(option, Tensor):
            found = certainty(option, region.settings)
            return "no" if found == "likely" and not option.sure else found
    return "no"


def _op(region: Region, fact: Op) -> Iterator[Problem]:
    text = spelled(fact.text, fact.name)
    factory = FACTORIES.get(fact.name)
    if factory is not None and factory.copies:
        data = fact.args[0] if fact.args else fact.kwargs.get("data")
        doubt = _where(region, fact.result)
        if doubt != "no" and data is not None and _from_host(data):
            scalar = isinstance(data, (Const, Host))
            fill = "use `torch.full((), value, device=...)`" if scalar else "make it before the capture"
            yield problem(region, fact, f"`{text}` copies Python data to the GPU: {_REFUSED}; {fill}", doubt)
        return
    if fact.name in ("Tensor.to", "Tensor.cuda") and isinstance(fact.receiver, Tensor):
        doubt = _where(region, fact.result)
        moved = may_have_moved(region, doubt, weight=fact.receiver.storage.kind in ("parameter", "buffer"))
        stays = fact.receiver.device != "cpu" or doubt == "no" or moved
        if not stays and not _pinned(fact.receiver, fact.kwargs.get("non_blocking", _flag(fact))):
            message = f"`{text}` copies a CPU tensor to the GPU: {_REFUSED}; move it before"
            yield problem(region, fact, message, doubt)
        return
    if fact.name == "Tensor.copy_" and isinstance(fact.receiver, Tensor):
        source = fact.argument(0, "src")
        for option in options(source) if source is not None else ():
            if not isinstance(option, Tensor) or option.device != "cpu":
                continue
            onto_gpu = certainty(fact.receiver, region.settings) == "sure"
            if onto_gpu and not _pinned(option, fact.argument(1, "non_blocking")):
                message = (
                    f"`{text}` copies a CPU tensor to the GPU: {_REFUSED}; copy before the replay, or from "
                    "pinned memory with `non_blocking=True`"
                )
                yield problem(region, fact, message)
        return
    if fact.name in ("torch.where", "Tensor.where", "Tensor.index_put_", "Tensor.masked_scatter_", "torch.index_put"):
        values = [*([fact.receiver] if fact.receiver is not None else []), *fact.args]
        on = [_where(region, v) for v in values]
        if "sure" in on and any(isinstance(v, Tensor) and v.device == "cpu" for v in values):
            yield problem(
                region, fact, f"`{text}` copies its CPU operand to the GPU: {_REFUSED}; make it on the GPU before"
            )
        return
    found = operators.judge(fact.name, fact.receiver, fact.args, fact.kwargs)
    found = found or library.judge_library(fact.name, fact.receiver, fact.args, fact.kwargs)
    if found is not None and found.rule == "host-copy":
        yield problem(
            region, fact, f"`{text}` {found.why}: {_REFUSED}; {found.advice}", "sure" if found.sure else "likely"
        )


def _flag(fact: Op) -> Value | None:
    """`to(device, dtype, non_blocking)` and `cuda(device, non_blocking)` by position."""
    place = 1 if fact.name == "Tensor.cuda" else 2
    return fact.args[place] if len(fact.args) > place else None


def _pinned(source: Tensor, non_blocking: Value | None) -> bool:
    return source.storage.pinned and forms.is_true(non_blocking) is not False and non_blocking is not None


def _from_host(data: Value) -> bool:
    """Whether the values of `torch.tensor(data)` come from the host."""
    for option in options(data):
        if isinstance(option, Tensor):
            if option.device == "cpu":
                return True
        elif isinstance(option, (Const, Host, Sequence)) or (
            isinstance(option, Instance) and option.external == "numpy.ndarray"
        ):
            return True
    return False


def _host_index(index: Value) -> str:
    """What of the host is used as an index: "a list", "an array", "a CPU tensor"; "" if nothing is."""
    for part in _parts(index):
        for option in options(part):
            if isinstance(option, Sequence) and option.kind in ("list", "range"):
                return "a list"
            if isinstance(option, Instance) and option.external == "numpy.ndarray":
                return "an array"
            if isinstance(option, Tensor) and option.device == "cpu" and option.shape != ():
                return "a CPU tensor"
    return ""


def _parts(index: Value) -> list[Value]:
    return list(index.items) if isinstance(index, Sequence) and index.kind == "tuple" else [index]


def _setitem(region: Region, fact: Write, index: Value) -> Iterator[Problem]:
    target = fact.target
    doubt = _where(region, target)
    if doubt == "no":
        return
    text = spelled(fact.text, "x[...]")
    what = _host_index(index)
    if what:
        message = (
            f"`{text} = ...` indexes with {what}, which is copied to the GPU: {_REFUSED}; use a CUDA index tensor "
            "made before"
        )
        yield problem(region, fact, message, doubt)
        return
    source = fact.source
    if source is None:
        return
    from_cpu = any(isinstance(o, Tensor) and o.device == "cpu" for o in options(source))
    if from_cpu and not _is_mask(index):
        yield problem(region, fact, f"`{text} = ...` copies a CPU tensor to the GPU: {_REFUSED}; move it before", doubt)
        return
    if not _number(source):
        return
    if _one_element(target, index):
        message = (
            f"`{text} = ...` copies one number to the GPU: {_REFUSED}; assign to a slice of length one, which is a fill"
        )
        yield problem(region, fact, message, doubt)
    elif any(isinstance(o, Tensor) and _gathers(o) for p in _parts(index) for o in options(p)):
        message = (
            f"`{text} = ...` copies a number to the GPU for an index tensor: {_REFUSED}; use `index_fill_` or "
            "`scatter_`"
        )
        yield problem(region, fact, message, doubt)


def _gathers(index: Tensor) -> bool:
    """Whether an index tensor stays one: a 0-dim tensor is read by the host, and then the number is a plain fill."""
    return index.dtype not in (None, "bool") and index.shape != ()


def _number(source: Value) -> bool:
    found = options(source)
    return all(
        (isinstance(o, Const) and isinstance(o.value, (bool, int, float, complex)))
        or (isinstance(o, Host) and o.kind in ("number", "bool"))
        for o in found
    )


def _is_mask(index: Value) -> bool:
    return any(isinstance(o, Tensor) and o.dtype == "bool" for p in _parts(index) for o in options(p))


def _one_element(target: Value, index: Value) -> bool:
    """Whether host integers pick a single element: as many of them as the tensor has dims."""
    parts = _parts(index)
    for option in options(target):
        if not isinstance(option, Tensor) or option.shape is None or len(option.shape) != len(parts):
            return False
    return all(isinstance(p, Host) or (isinstance(p, Const) and type(p.value) is int) for p in parts)
