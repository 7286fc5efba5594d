"""The learning rate of an optimizer whose step is captured."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places
from graphlint.fact import Bind, Fact, Op
from graphlint.finding import Note, Problem
from graphlint.knowledge import optimizers
from graphlint.region import Region
from graphlint.value import Instance, Mapping, Unknown, Value, tensors


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
        if all(_may_be_tensor(rate) for rate in _rates(region, optimizer)):
            continue
        change = _rate_change(region, optimizer)
        if change is not None and optimizer.made is not None:
            message = (
                "the learning rate is a Python float and its captured step keeps it for ever: build the optimizer with "
                '`lr=torch.tensor(..., device="cuda")`'
            )
            notes = (Note(region.at, "captured here"), Note(change.at, "the rate changes here"))
            yield Problem(optimizer.made, message, notes)


def _rates(region: Region, optimizer: Instance) -> list[Value | None]:
    """The learning rate of each group as the capture found it."""
    built = optimizers.learning_rate(optimizer)
    groups = optimizers.groups(optimizer)
    return [_at_capture(region, group, built) for group in groups] if groups else [built]


def _at_capture(region: Region, group: Mapping, built: Value | None) -> Value | None:
    bound = [f for f in region.life if isinstance(f, Bind) and f.place.owner == group.id and f.place.name == "lr"]
    before = [f for f in bound if f.order < region.begin]
    if before:
        return before[-1].value
    return bound[0].old if bound and bound[0].old is not None else group.items.get("lr", built)


def _may_be_tensor(rate: Value | None) -> bool:
    return rate is not None and (bool(tensors(rate, 1)) or isinstance(rate, Unknown))


def _rate_change(region: Region, optimizer: Instance) -> Fact | None:
    groups = {g.id for g in optimizers.groups(optimizer)}
    for fact in region.after:
        if fact.region is not None or not places.lives_on(region, fact):
            continue
        if isinstance(fact, Op) and fact.name.endswith(".step") and scheduled(fact.receiver) is optimizer:
            return fact
        if isinstance(fact, Bind) and fact.place.owner in groups and fact.place.name == "lr":
            return fact
    return None
