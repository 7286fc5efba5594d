"""Captured optimizer steps, judged by how the optimizer was built."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.doubt import CAPTURING, once, problem
from graphlint.fact import Op
from graphlint.finding import Note, Problem
from graphlint.knowledge import optimizers
from graphlint.knowledge.optimizers import OPTIMIZERS
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Instance, options


@rule(
    "GL005",
    "optimizer-in-capture",
    "error",
    "a captured optimizer step that cannot be captured as the optimizer is built",
)
def check(region: Region) -> Iterator[Problem]:
    if region.kind in CAPTURING:
        yield from once(_found(region))


def _found(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if not isinstance(fact, Op) or not fact.name.endswith(".step"):
            continue
        if fact.name == "torch.amp.GradScaler.step":
            scaler = fact.receiver
            given = fact.argument(0, "optimizer")
            for option in options(given) if given is not None else ():
                if isinstance(option, Instance) and option.external in OPTIMIZERS:
                    yield from _scaled(region, fact, option, scaler)
        elif isinstance(fact.receiver, Instance) and fact.receiver.external in OPTIMIZERS:
            yield from _step(region, fact, fact.receiver)


def _step(region: Region, fact: Op, optimizer: Instance) -> Iterator[Problem]:
    reason = _reason(optimizer)
    if reason:
        yield problem(region, fact, reason, notes=_built(optimizer))


def _built(optimizer: Instance) -> tuple[Note, ...]:
    return (Note(optimizer.made, "the optimizer is built here"),) if optimizer.made is not None else ()


def _reason(optimizer: Instance) -> str:
    """Why a captured step of `optimizer` is wrong; "" if it is not, or not known to be."""
    row = OPTIMIZERS[optimizer.external]
    name = optimizer.external.rpartition(".")[2]
    if row.plain == "refused":
        if _option(optimizer, "capturable") is not False:
            return ""
        extra = (
            ": `fused=True` alone is not enough, add" if optimizers.option(optimizer, "fused") else ": build it with"
        )
        return f"torch refuses to capture `step()` of an `{name}` that is not capturable{extra} `capturable=True`"
    if row.plain == "fails":
        return f"`step()` of `{name}` cannot be captured, {row.why}: call it after the replay"
    if name == "Adagrad" and optimizers.decays(optimizer.kwargs, optimizer.args):
        return (
            "`Adagrad` keeps its step count on the CPU, so `lr_decay` stops decaying under replay: call `step()` "
            "after the replay"
        )
    if name == "SGD" and optimizers.tensor_rate(optimizer) and _option(optimizer, "fused") is False:
        return "`SGD` reads a tensor learning rate on the host unless it is fused: build it with `fused=True`"
    return ""


def _option(optimizer: Instance, name: str) -> bool | None:
    """A boolean option, as it was given or set later in a parameter group; None if it is not known."""
    for group in optimizers.groups(optimizer):
        if name in group.items:
            return optimizers.is_true(group.items[name])
    return optimizers.option(optimizer, name)


def _scaled(region: Region, fact: Op, optimizer: Instance, scaler: object) -> Iterator[Problem]:
    row = OPTIMIZERS[optimizer.external]
    name = optimizer.external.rpartition(".")[2]
    enabled = scaler.kwargs.get("enabled") if isinstance(scaler, Instance) else None
    if enabled is not None and optimizers.is_true(enabled) is False:
        yield from _step(region, fact, optimizer)
        return
    fused = _option(optimizer, "fused")
    if not row.amp or fused is False:
        message = (
            f"`GradScaler.step` reads on the host whether a gradient of `{name}` overflowed: use a fused, "
            "capturable optimizer, or step after the replay"
        )
        yield problem(region, fact, message, notes=_built(optimizer))
    else:
        yield from _step(region, fact, optimizer)
