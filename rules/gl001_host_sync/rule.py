"""Reads and waits under a capture: nothing runs yet, so there is nothing to read and nothing to wait for."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.doubt import CAPTURING, Certainty, any_gpu, certainty, may_have_moved, once, problem, spelled
from graphlint.fact import Fact, HostRead, Index, Op, Operator, Raises, Write
from graphlint.finding import Problem
from graphlint.knowledge import forms, library, operators, sync
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Sequence, Tensor, Value, options, tensors

#: A lazy log call formats its arguments only if its level is on; these are off unless somebody asks for them.
_QUIET = (".debug", ".info")


@rule("GL001", "host-sync", "error", "the host reads a CUDA value, or waits for the GPU, inside a capture")
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    facts = list(region.captured)
    validates = True
    for fact in region.before:
        if isinstance(fact, Op) and library.turns_validation_off(fact.name, fact.args, fact.kwargs):
            validates = False
    for position, fact in enumerate(facts):
        if isinstance(fact, HostRead):
            if not _harmless(fact, facts, position):
                yield from _read(region, fact)
        elif isinstance(fact, Op):
            yield from _call(region, fact, validates)
        elif isinstance(fact, Operator):
            yield from _percent(region, fact)
        elif isinstance(fact, (Index, Write)) and fact.index is not None:
            yield from _index(region, fact, fact.index, fact.text)


def _read(region: Region, fact: HostRead) -> Iterator[Problem]:
    for tensor in tensors(fact.value, 1):
        doubt = certainty(tensor, region.settings)
        if doubt == "no" or (doubt == "likely" and not tensor.sure and fact.op not in sync.TENSOR_ONLY):
            continue
        if fact.op == "to" and may_have_moved(region, doubt):
            continue
        what = sync.READS.get(fact.op, "reads a CUDA tensor's value on the host")
        if doubt == "likely":
            what = what.replace("a CUDA tensor", "a tensor")
        instead = sync.INSTEAD.get(fact.op, "do it after the replay")
        yield problem(region, fact, f"`{spelled(fact.text, fact.op)}` {what}: the capture fails; {instead}", doubt)
        return


def _harmless(fact: HostRead, facts: list[Fact], position: int) -> bool:
    if fact.op == "log" and fact.text.rpartition("(")[0].endswith(_QUIET) | fact.text.endswith(_QUIET):
        return True
    if fact.op in ("to", "copy"):
        call = facts[position - 1] if position else None
        return isinstance(call, Op) and call.at == fact.at and forms.is_true(call.kwargs.get("non_blocking")) is True
    if fact.op in ("format", "repr"):
        # the text of an error is made only when it is raised
        for later in facts[position + 1 : position + 8]:
            if isinstance(later, Raises) and not later.handler and later.at.path == fact.at.path:
                return later.at.span.line <= fact.at.line <= later.at.span.end_line
    return False


def _call(region: Region, fact: Op, validates: bool) -> Iterator[Problem]:
    name = spelled(fact.text, fact.name)
    if fact.name in sync.WAITS:
        yield problem(region, fact, f"`{name}` {sync.WAITS[fact.name]}: not permitted in a capture; do it outside")
        return
    if fact.name == "Tensor.copy_" and (found := _copied_out(region, fact)):
        yield found
        return
    if fact.name == "Tensor.backward" and any(sync.anomaly_mode(c.name, c.value) for c in fact.contexts):
        yield problem(
            region, fact, f"`{name}` runs in anomaly mode, which checks each gradient on the host: switch it off"
        )
        return
    if fact.name in ("torch.tensor", "torch.as_tensor") and fact.args and isinstance(fact.args[0], Sequence):
        made = (
            next((o for o in options(fact.result) if isinstance(o, Tensor)), None) if fact.result is not None else None
        )
        if made is not None and made.device == "cpu" and any_gpu(fact.args, region.settings) == "sure":
            yield problem(region, fact, f"`{name}` reads each CUDA tensor of the list on the host: use `torch.stack`")
        return
    if fact.name == "torch.amp.GradScaler.get_scale" and not _scaled_before(region, fact):
        return
    found_ = operators.judge(fact.name, fact.receiver, fact.args, fact.kwargs)
    found_ = found_ or library.judge_library(fact.name, fact.receiver, fact.args, fact.kwargs, validates)
    if found_ is None or found_.rule != "host-sync":
        return
    if found_.until is not None and region.settings.at_least(*found_.until):
        return
    doubt: Certainty = "sure" if found_.sure else "likely"
    if (
        doubt == "likely"
        and fact.receiver is None
        and any_gpu([*fact.args, *fact.kwargs.values()], region.settings) == "no"
    ):
        return
    if isinstance(fact.receiver, Tensor) and certainty(fact.receiver, region.settings) == "no":
        return
    yield problem(region, fact, f"`{name}` {found_.why}: the capture fails; {found_.advice}", doubt)


def _scaled_before(region: Region, fact: Op) -> bool:
    """Whether the scaler's scale is on the GPU: it is made at the first `scale()`; before, it is a Python number."""
    return any(
        isinstance(f, Op) and f.name == "torch.amp.GradScaler.scale" and f.receiver is fact.receiver
        for f in region.life
        if f.order < fact.order
    )


def _percent(region: Region, fact: Operator) -> Iterator[Problem]:
    """`"loss %f" % tensor` formats the tensor."""
    left = fact.operands[0] if fact.op == "%" and len(fact.operands) == 2 else None
    if isinstance(left, Const) and isinstance(left.value, str):
        doubt = any_gpu(fact.operands[1:], region.settings)
        if doubt == "sure":
            yield problem(region, fact, f"`%` {sync.READS['format']}: the capture fails; {sync.INSTEAD['format']}")


def _copied_out(region: Region, fact: Op) -> Problem | None:
    """`host.copy_(cuda)`: fine only into pinned memory and non_blocking."""
    target, source = fact.receiver, fact.argument(0, "src")
    if not isinstance(target, Tensor) or not isinstance(source, Tensor) or target.device != "cpu":
        return None
    if certainty(source, region.settings) != "sure":
        return None
    waits = forms.is_true(fact.argument(1, "non_blocking")) is not True
    if target.storage.pinned and not waits:
        return None
    message = f"`{spelled(fact.text, 'copy_()')}` copies a CUDA tensor to the host and waits: copy after the replay"
    return problem(region, fact, message)


def _index(region: Region, fact: Fact, index: Value, text: str) -> Iterator[Problem]:
    """A 0-dim CUDA tensor as an index, or a CUDA tensor as a slice bound, is read by the host."""
    parts = index.items if isinstance(index, Sequence) and index.kind == "tuple" else [index]
    for part in parts:
        bounds = part.items if isinstance(part, Sequence) and part.kind == "slice" else []
        if any(any_gpu([bound], region.settings, 0) == "sure" for bound in bounds):
            yield problem(region, fact, _index_message(text, "slice"))
            return
        for option in options(part):
            if isinstance(option, Tensor) and option.shape == () and option.dtype != "bool" and option.device == "cuda":
                yield problem(region, fact, _index_message(text, "index"))
                return


def _index_message(text: str, op: str) -> str:
    return f"`{spelled(text, 'x[...]')}` {sync.READS[op]}: the capture fails; {sync.INSTEAD[op]}"
