"""Python numbers, flags and lengths that captured work used, and that change between replays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphlint import places, queries
from graphlint.fact import Bind, CaptureBegin, Context, Enter, Fact, Index, Iterate, Keep, Op, Operator, Return, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import (
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Tensor,
    Unknown,
    Value,
    options,
    origins,
    tensors,
)

from .arguments import frozen_arguments

Key = tuple[int, str]
_GROWS = ("append", "appendleft", "add", "insert", "extend", "extendleft")
_MODAL = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU")
_MODAL_CALLS = ("dropout", "batch_norm", "rrelu", "feature_alpha_dropout")


@rule("GL011", "stale-scalar", "error", "a Python number or flag that changes between replays is frozen in the graph")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in (*places.MANUAL, "graphed-callables"):
        return
    told: set[Location] = set()
    manual = region.kind in places.MANUAL
    found = [*_numbers(region), *_learning_rates(region)]
    if manual:
        found += [
            *([] if _keyed(region) else frozen_arguments(region)),
            *_modes(region),
            *_autocast(region),
            *_cpu_scalars(region),
        ]
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem


@dataclass(slots=True)
class _Changes:
    """What is bound between replays: by place, and containers that are replaced or whose object is made anew."""

    places: dict[Key, list[Fact]] = field(default_factory=dict)
    containers: dict[int, Fact] = field(default_factory=dict)
    entries: dict[int, Fact] = field(default_factory=dict)
    """Containers of which some entry changes: it matters where it is not known which entry is read."""
    records: dict[Location, list[tuple[Instance, Fact]]] = field(default_factory=dict)
    keys: set[Place | int] = field(default_factory=set)
    """What the graph is kept under: the places that its key was made of, the ids of objects that are the key."""


def _numbers(region: Region) -> Iterator[Problem]:
    changes = _changes(region)
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
                change = _changed(region, scalar, changes, own, items, objects)
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


def _changes(region: Region) -> _Changes:
    found = _Changes()
    keyed = _keyed(region)
    found.keys = _kept_under(region) if keyed else set()
    earlier: dict[Key, list[Instance]] = {}
    captured_again = [
        f.order
        for f in region.life
        if isinstance(f, CaptureBegin) and f.begun is not region and f.begun.at == region.at and (keyed or not f.maybe)
    ]
    for fact in region.after:
        if fact.region is not None:
            continue
        if (
            isinstance(fact, Op)
            and fact.name.endswith(".step")
            and (optimizer := _scheduled(fact.receiver)) is not None
        ):
            if places.lives_on(region, fact):
                for group in _groups(optimizer):
                    if not isinstance(group.items.get("lr"), Tensor):
                        found.places.setdefault((group.id, "lr"), []).append(fact)
        elif isinstance(fact, Bind) and fact.value is not None and not _same(fact.old, fact.value):
            if keyed and fact.place.kind in ("local", "global"):
                continue  # the key's business: graph-key
            replay = places.next_replay(region, fact)
            end = replay.order if replay is not None else 1 << 60
            if any(fact.order < order < end for order in captured_again) or not places.lives_on(region, fact):
                continue
            found.places.setdefault((fact.place.owner, fact.place.name), []).append(fact)
            for old in options(fact.old) if fact.old is not None else ():
                if isinstance(old, (Sequence, Mapping)):
                    found.containers.setdefault(old.id, fact)
                elif isinstance(old, Instance) and isinstance(fact.value, Instance) and not old.external:
                    if _graph_of_its_own(region, fact.value):
                        continue
                    held = earlier.setdefault((fact.place.owner, fact.place.name), [])
                    if all(one is not old for one in held):
                        held.append(old)
                    for one in held:
                        for name in _differing(one, fact.value):
                            found.places.setdefault((one.id, name), []).append(fact)
            if isinstance(fact.owner, (Sequence, Mapping)):
                found.entries.setdefault(fact.owner.id, fact)
                if fact.place.name == "*":
                    found.containers.setdefault(fact.owner.id, fact)
        elif isinstance(fact, Keep) and fact.how in _GROWS and places.lives_on(region, fact):
            for container in options(fact.container):
                if isinstance(container, (Sequence, Mapping)) and container.born is None:
                    found.places.setdefault((container.id, "len"), []).append(fact)
        elif isinstance(fact, Return) and places.next_replay(region, fact) is not None:
            for value in options(fact.value):
                if isinstance(value, Instance) and value.made is not None and not value.external:
                    if _graph_of_its_own(region, value):
                        continue
                    found.records.setdefault(value.made, []).append((value, fact))
    return found


def _graph_of_its_own(region: Region, value: Value) -> bool:
    """True for an object that keeps another graph: what it holds was frozen in that one."""
    held, mine = queries.held_graphs(value), queries.graphs(region.graph)
    return bool(held) and not any(g in mine for g in held)


def _differing(old: Instance, new: Instance) -> list[str]:
    """The scalar attributes that a new object of the same class holds other values in."""
    if old.cls is not new.cls:
        return []
    return [
        name
        for name, value in new.attrs.items()
        if isinstance(value, (Const, Host)) and name in old.attrs and not _same(old.attrs[name], value)
    ]


def _keyed(region: Region) -> bool:
    """True if the graph is one of several in a container, each for its own values."""
    mine = queries.graphs(region.graph)
    for fact in region.life:
        kept = isinstance(fact, Keep) or (isinstance(fact, Bind) and fact.place.kind == "item")
        if kept and any(g in mine for g in queries.held_graphs(fact.value)):  # type: ignore[attr-defined]
            return True
    return False


def _kept_under(region: Region) -> set[Place | int]:
    """What the key of the graph's place in a table was made of: another value finds another graph."""
    mine = queries.graphs(region.graph)
    found: set[Place | int] = set()
    for fact in region.after:
        if isinstance(fact, Keep) and fact.key is not None and any(g in mine for g in queries.held_graphs(fact.value)):
            for part in [fact.key, *(fact.key.items if isinstance(fact.key, Sequence) else ())]:
                found |= origins(part)
                found |= {part.id} if isinstance(part, Instance) else set()
    return found


def _same(old: Value | None, new: Value) -> bool:
    """True if binding `new` over `old` changes nothing."""
    if old is new:
        return True
    if isinstance(old, Const) and isinstance(new, Const):
        return type(old.value) is type(new.value) and old.value == new.value
    if isinstance(old, Host) and isinstance(new, Host):
        return old.symbol is not None and old.symbol == new.symbol
    return False


def _scheduled(scheduler: Value | None) -> Instance | None:
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


def _groups(optimizer: Instance) -> list[Mapping]:
    groups = optimizer.attrs.get("param_groups")
    return [g for g in groups.items if isinstance(g, Mapping)] if isinstance(groups, Sequence) else []


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


def _changed(
    region: Region, scalar: Value, changes: _Changes, own: set[Key], items: dict[Key, int], objects: dict[int, Instance]
) -> Fact | None:
    """The fact that changes what `scalar` was computed from, if a replay follows it."""
    for place in origins(scalar):
        key = (place.owner, place.name)
        if place in changes.keys or place.owner in changes.keys:
            continue
        if key in own:
            if (container := items.get(key)) is not None and container in changes.entries:
                return changes.entries[container]
            if container is not None and container in changes.containers:
                return changes.containers[container]
            continue
        if place.owner in changes.containers and place.kind == "item" and place.name != "len":
            return changes.containers[place.owner]
        if place.name == "*" and place.owner in changes.entries:
            return changes.entries[place.owner]
        if key in changes.places:
            return changes.places[key][0]
        if (star := (place.owner, "*")) in changes.places:
            return changes.places[star][0]
        owner = objects.get(place.owner)
        if owner is not None and owner.made is not None and owner.born is None and place.kind == "attribute":
            for record, fact in changes.records.get(owner.made, ()):
                new = record.attrs.get(place.name)
                if (
                    record.id != owner.id
                    and new is not None
                    and isinstance(new, (Const, Host))
                    and not _same(owner.attrs.get(place.name), new)
                    and type(record.cls) is type(owner.cls)
                ):
                    return fact
    return None


def _learning_rates(region: Region) -> Iterator[Problem]:
    """The float learning rate of a captured built-in optimizer that a scheduler, or an assignment, changes later."""
    stepped: dict[int, Instance] = {}
    for fact in region.captured:
        if (
            isinstance(fact, Op)
            and fact.name.endswith(".step")
            and isinstance(fact.receiver, Instance)
            and fact.receiver.external.startswith("torch.optim.")
            and _scheduled(fact.receiver) is None
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
    groups = {g.id for g in _groups(optimizer)}
    for fact in region.after:
        if fact.region is not None or not places.lives_on(region, fact):
            continue
        if isinstance(fact, Op) and fact.name.endswith(".step") and _scheduled(fact.receiver) is optimizer:
            return fact
        if isinstance(fact, Bind) and fact.place.owner in groups and fact.place.name == "lr":
            return fact
    return None


def _modes(region: Region) -> Iterator[Problem]:
    """`eval()` or `train()` on a captured module, still in force at a replay."""
    modal = _modal_modules(region)
    if not modal:
        return
    state: dict[int, Bind] = {}
    for fact in region.after:
        if isinstance(fact, Bind) and fact.place.name == "training" and fact.place.owner in modal:
            was = modal[fact.place.owner]
            now = fact.value.value if isinstance(fact.value, Const) else None
            if isinstance(now, bool) and now != was:
                state[fact.place.owner] = fact
            else:
                state.pop(fact.place.owner, None)
        elif fact in places.replays(region) and state:
            flip = next(iter(state.values()))
            message = (
                f"`{flip.text}` changes nothing in the graph, which keeps the mode of the capture: set it "
                "before the capture"
                if flip.text
                else "the mode is switched after the capture, which the graph does not see"
            )
            notes = (Note(region.at, "captured here"), Note(fact.at, "replayed here"))
            yield Problem(flip.at, message, notes, function=flip.function)
            return


def _modal_modules(region: Region) -> dict[int, bool]:
    """Captured modules that do different work in training mode, with the mode of the capture."""
    found: dict[int, bool] = {}
    for fact in region.captured:
        if isinstance(fact, Op) and isinstance(fact.receiver, Instance) and fact.name.endswith(".forward"):
            if any(m in fact.name for m in _MODAL):
                found[fact.receiver.id] = _mode_before(region, fact.receiver)
        elif isinstance(fact, Op) and fact.name.rpartition(".")[2] in _MODAL_CALLS:
            for value in fact.kwargs.values():
                for place in origins(value):
                    if place.name == "training":
                        found[place.owner] = bool(getattr(value, "value", True))
    return found


def _mode_before(region: Region, module: Instance) -> bool:
    mode = True
    for fact in region.before:
        if (
            isinstance(fact, Bind)
            and fact.place == Place(module.id, "training", "attribute")
            and isinstance(fact.value, Const)
        ):
            mode = bool(fact.value.value)
    return mode


def _autocast(region: Region) -> Iterator[Problem]:
    """Autocast entered around the replay of a graph that was captured without it."""
    begin = places.begins(region)
    if begin is None or any(_is_autocast(c) for c in begin.contexts):
        return
    if any(_is_autocast(f) for f in region.captured if isinstance(f, Context)) or not _casts(region):
        return
    for replay in places.replays(region):
        block = next((c for c in replay.contexts if _is_autocast(c)), None)
        if block is not None:
            message = (
                "autocast around a replay has no effect, the graph keeps the dtypes of the capture: capture inside it"
            )
            notes = (Note(region.at, "captured here"), Note(replay.at, "replayed here"))
            yield Problem(block.at, message, notes, function=block.function)
            return


def _is_autocast(context: Context) -> bool:
    if context.name not in queries.AUTOCAST_BLOCKS:
        return False
    flag = context.value.kwargs.get("enabled") if isinstance(context.value, Instance) else None
    return not (isinstance(flag, Const) and not flag.value)


def _casts(region: Region) -> bool:
    """True if the capture holds work that autocast would run in another dtype."""
    return any(
        (isinstance(f, Operator) and f.op == "@")
        or (
            isinstance(f, Op)
            and any(
                w in f.name.lower() for w in ("linear", "conv", "matmul", "mm", "attention", "lstm", "gru", "einsum")
            )
        )
        for f in region.captured
    )


def _cpu_scalars(region: Region) -> Iterator[Problem]:
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
