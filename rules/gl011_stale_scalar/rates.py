"""The learning rate of an optimizer whose step is captured."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places
from graphlint.fact import Bind, Fact, Op
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Instance, Mapping, Sequence, Unknown, Value, tensors


def scheduled(scheduler: Value | None) -> Instance | None:
    """The optimizer of a learning rate scheduler."""
    if not isinstance(scheduler, Instance):
        return None
    first = scheduler.args[0] if scheduler.args else scheduler.kwargs.get("optimizer")
    if not isinstance(first, Instance) or not places.is_optimizer(first):
        return None
    name = scheduler.external or getattr(scheduler.cls, "name", "")
    return (
        first
        if name.endswith("LR") or "sched" in name.lower() or name.rpartition(".")[2].endswith("Restarts")
        else None
    )


def param_groups(optimizer: Instance) -> list[Mapping]:
    groups = optimizer.attrs.get("param_groups")
    return [g for g in groups.items if isinstance(g, Mapping)] if isinstance(groups, Sequence) else []


def learning_rates(region: Region) -> Iterator[Problem]:
    """The float learning rate of a captured built-in optimizer that a scheduler, or an assignment, changes later."""
    stepped: dict[int, Instance] = {}
    for fact in region.captured:
        if (
            isinstance(fact, Op)
            and fact.name.endswith(".step")
            and isinstance(fact.receiver, Instance)
            and fact.receiver.external.startswith("torch.optim.")
            and scheduled(fact.receiver) is None
        ):
            stepped.setdefault(fact.receiver.id, fact.receiver)
    for optimizer in stepped.values():
        rate = optimizer.kwargs.get("lr") or (optimizer.args[1] if len(optimizer.args) > 1 else None)
        if rate is not None and (tensors(rate, 1) or isinstance(rate, Unknown)):
            continue
        change = _rate_change(region, optimizer)
        if change is not None and optimizer.made is not None:
            message = (
                "the learning rate is a Python float and its captured step keeps it for ever: build the optimizer with "
                '`lr=torch.tensor(..., device="cuda")`'
            )
            notes = (Note(region.at, "captured here"), Note(change.at, "the rate changes here"))
            yield Problem(optimizer.made, message, notes)


def _rate_change(region: Region, optimizer: Instance) -> Fact | None:
    groups = {g.id for g in param_groups(optimizer)}
    for fact in region.after:
        if fact.region is not None or not places.lives_on(region, fact):
            continue
        if isinstance(fact, Op) and fact.name.endswith(".step") and scheduled(fact.receiver) is optimizer:
            return fact
        if isinstance(fact, Bind) and fact.place.owner in groups and fact.place.name == "lr":
            return fact
    return None
