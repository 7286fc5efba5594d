"""Host numbers that captured work used, and CPU scalars that were handed over by value."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Enter, Fact, Index, Iterate, Op, Operator, Return, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Const, Host, Instance, Sequence, Tensor, Unknown, Value, options, tensors

from .changes import Key, change_of, changes_of


def stale_numbers(region: Region) -> Iterator[Problem]:
    changes = changes_of(region)
    if not (changes.places or changes.containers or changes.records):
        return
    own: set[Key] = set()
    objects = {i.id: i for i in _instances(region)}
    items: dict[Key, int] = {}
    iterated = 0
    for fact in region.captured:
        if isinstance(fact, Iterate):
            iterated = getattr(fact.value, "id", 0)
        elif isinstance(fact, Bind):
            own.add((fact.place.owner, fact.place.name))
            if iterated:
                items[fact.place.owner, fact.place.name] = iterated
                iterated = 0
        elif isinstance(fact, (Op, Operator, Index, Write)) and _tensor_work(fact):
            for scalar in _scalars(fact):
                change = change_of(region, scalar, changes, own, items, objects)
                if change is not None:
                    yield _use(region, fact, scalar, change)
                    break


def _use(region: Region, fact: Fact, scalar: Value, change: Fact) -> Problem:
    name = getattr(change, "text", "") or (change.place.name if isinstance(change, Bind) else "")
    what = f"`{name}`" if name else "a Python value"
    message = (
        f"{what} changes between replays, but the graph keeps the number of the capture: use a device tensor and "
        "`fill_()`"
    )
    notes = [Note(region.at, "captured here"), Note(change.at, "changed here")]
    notes += [Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[region.depth :]][-3:]
    return Problem(fact.at, message, tuple(notes), function=fact.function)


def _instances(region: Region) -> Iterator[Instance]:
    for fact in region.life:
        values: tuple[Value | None, ...] = ()
        if isinstance(fact, (Bind, Return)):
            values = (fact.value, getattr(fact, "owner", None))
        elif isinstance(fact, Enter):
            values = fact.args
        for value in values:
            if value is not None:
                yield from (o for o in options(value) if isinstance(o, Instance))


def _tensor_work(fact: Fact) -> bool:
    if isinstance(fact, Op):
        return fact.name.startswith(("Tensor.", "torch.", "kernel.")) and (
            isinstance(fact.receiver, (Tensor, Instance)) or bool(tensors(fact.result or Unknown(), 1))
        ) and not fact.name.startswith(("torch.optim.", "torch.cuda.", "torch.nn.Module."))  # fmt: skip
    return True


def _scalars(fact: Fact) -> Iterator[Value]:
    """The host numbers that `fact` hands to the GPU, or that decide about shapes."""
    values: list[Value] = []
    if isinstance(fact, Op):
        values = [*fact.args, *fact.kwargs.values()]
    elif isinstance(fact, Operator):
        values = list(fact.operands)
    elif isinstance(fact, Index):
        values = [fact.index]
    elif isinstance(fact, Write):
        values = [v for v in (fact.source, fact.index) if v is not None]
    for value in values:
        yield from _flat(value, 3)


def _flat(value: Value, depth: int) -> Iterator[Value]:
    for option in options(value):
        if isinstance(option, Const):
            if not isinstance(option.value, str) or option.place is not None:
                yield option
        elif isinstance(option, Host):
            if option.source != "read":
                yield option
        elif isinstance(option, Unknown) and option.inputs:
            yield Host(inputs=option.inputs)
        elif isinstance(option, Sequence) and depth > 0:
            for item in option.items:
                yield from _flat(item, depth - 1)


def cpu_scalars(region: Region) -> Iterator[Problem]:
    """Zero-dimensional CPU tensors in captured arithmetic: passed by value, written later."""
    for fact in region.captured:
        if not isinstance(fact, (Op, Operator)):
            continue
        values = [t for v in queries.operands(fact) for t in tensors(v, 0)]
        if not any(t.device == "cuda" for t in values):
            continue
        for scalar in values:
            if scalar.device != "cpu" or scalar.shape != ():
                continue
            change = _written_later(region, scalar)
            if change is not None:
                message = (
                    "a CPU scalar tensor is passed to the kernel by value: what is written to it later never reaches "
                    "the graph, keep it on the GPU"
                )
                notes = (Note(region.at, "captured here"), Note(change.at, "changed here"))
                yield Problem(fact.at, message, notes, function=fact.function)


def _written_later(region: Region, scalar: Tensor) -> Fact | None:
    for fact in region.after:
        hit = isinstance(fact, Write) and scalar.storage in queries.storages(fact.target, 0)
        rebound = isinstance(fact, Bind) and fact.place == scalar.place and not places.is_empty(fact.value)
        if (hit or rebound) and fact.region is None and places.lives_on(region, fact):
            return fact
    return None
