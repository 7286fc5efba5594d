"""Which places captured code reads, and what becomes of them between replays.

Glossary:
    place      an attribute, a key or a name that can be rebound (value.py).
    borrowed   memory that the graph uses and does not own: made outside its capture.
    scratch    borrowed memory that the capture fills before it reads it: only its address matters, not its content.
    recaptured a later capture at the same line takes the region's place before the next replay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from graphlint import queries
from graphlint.doubt import past
from graphlint.fact import Bind, CaptureBegin, Enter, Fact, Index, Keep, Op, Replay, Return, Unfollowed, Write
from graphlint.region import Region
from graphlint.value import (
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Storage,
    Tensor,
    Unknown,
    Value,
    options,
    tensors,
)

MANUAL = ("graph", "begin-end", "accelerator-graph")
_PLAIN = (Const, Host, Tensor, Unknown)
_FILLS = frozenset({"copy_", "fill_", "zero_", "setitem", "out=", "normal_", "uniform_", "random_"})


def reads(region: Region) -> dict[Place, tuple[Fact, Tensor]]:
    """Places that captured code reads a borrowed tensor from, each with the first fact that does and the tensor."""
    found: dict[Place, tuple[Fact, Tensor]] = {}
    for fact in region.captured:
        passed = [*fact.args, *fact.given.values()] if isinstance(fact, Enter) else queries.operands(fact)
        for value in passed:
            for tensor in _direct(value):
                if tensor.place is not None and tensor.storage.born is not region:
                    found.setdefault(tensor.place, (fact, tensor))
            if isinstance(value, Instance) and value.external.startswith("torch.nn."):
                for name, attr in value.attrs.items():
                    if isinstance(attr, Tensor) and attr.storage.born is not region:
                        found.setdefault(Place(value.id, name, "attribute"), (fact, attr))
    return found


def _direct(value: Value) -> Iterator[Tensor]:
    for option in options(value):
        if isinstance(option, Tensor):
            yield option
        elif isinstance(option, Sequence):
            for item in [*option.items, *([option.rest] if option.rest is not None else [])]:
                yield from (o for o in options(item) if isinstance(o, Tensor))


def borrowed(region: Region) -> set[Storage]:
    return {s for s in (*region.inputs, *region.writes) if s.born is not region}


@lru_cache(maxsize=16)
def begins(region: Region) -> CaptureBegin | None:
    return queries.begin_fact(region)


def is_optimizer(value: Value | None) -> bool:
    """An optimizer of torch, or of a class derived from one."""
    if not isinstance(value, Instance):
        return False
    bases = getattr(value.cls, "external_bases", ())
    return value.external.startswith("torch.optim.") or any(b.startswith("torch.optim.") for b in bases)


@lru_cache(maxsize=16)
def gradients(region: Region) -> frozenset[Storage]:
    """Memory that the program made itself and bound as some tensor's `.grad`."""
    return frozenset(
        s
        for f in region.life
        if isinstance(f, Bind) and f.place.name == "grad" and isinstance(f.owner, Tensor)
        for s in queries.storages(f.value, 1)
    )


def is_empty(value: Value | None) -> bool:
    """None, or a value that holds nothing: the place was cleared."""
    if value is None:
        return True
    if isinstance(value, Sequence):
        return not value.items and value.rest is None
    if isinstance(value, Mapping):
        return not value.items and value.rest is None
    return isinstance(value, Const) and value.value is None


@lru_cache(maxsize=16)
def replays(region: Region) -> list[Replay]:
    """Replays of `region` that are not meant for a later capture at the same line."""
    again = [
        f.order
        for f in region.life
        if isinstance(f, CaptureBegin) and _same_site(f.begun, region) and f.order > region.begin
    ]
    found: list[Replay] = []
    for fact in region.after:
        if isinstance(fact, Replay) and fact.region is None and region in fact.replayed:
            newer = any(r is not region and _same_site(r, region) and r.begin > region.begin for r in fact.replayed)
            if not (newer and any(o < fact.order for o in again)):
                found.append(fact)
    return found


def _same_site(one: Region, other: Region) -> bool:
    return one is not other and one.at == other.at and one.kind == other.kind


def next_replay(region: Region, fact: Fact) -> Replay | None:
    """The first replay of `region` after `fact`: later in order, or earlier in a loop that both stand in."""
    for replay in replays(region):
        if replay.order > fact.order:
            return replay
    return None


def lives_on(region: Region, fact: Fact) -> bool:
    """True if the graph is replayed after `fact`, or nothing is known of its replays."""
    if by_harness(fact):
        return False
    if next_replay(region, fact) is not None:
        return True
    begin = begins(region)
    if begin is None or begin.complete or past(region) != "sure" or graph_dropped(region, fact):
        return False
    # One that stood where a later capture's graph stands now is known, too, to be replayed no more.
    replayed = any(isinstance(f, Replay) and region in f.replayed for f in region.after)
    return not replayed and _handed_out(region)


@lru_cache(maxsize=16)
def _handed_out(region: Region) -> bool:
    """False if the graph is a local of a call and nothing that outlives the call is seen to hold it."""
    mine = {g.id for g in queries.graphs(region.graph)}
    if not mine:
        return True
    if not region.outlived:
        return any(
            isinstance(f, Unfollowed) and any(g.id in mine for a in f.args for g in queries.held_graphs(a))
            for f in region.after
        )
    for fact in region.life:
        if fact.order > region.begin and isinstance(fact, Return) and _holds_code(fact.value):
            return True
        if isinstance(fact, (Return, Keep)) or (isinstance(fact, Bind) and fact.place.kind != "local"):
            for option in options(fact.value) if fact.value is not None else ():
                if any(g.id in mine for g in queries.held_graphs(option)):
                    return True
        elif isinstance(fact, Enter) and any(g.id in mine for a in fact.args for g in queries.held_graphs(a)):
            if not fact.args or not isinstance(fact.args[0], Instance) or fact.args[0].id not in mine:
                return True
        elif isinstance(fact, Unfollowed) and any(g.id in mine for a in fact.args for g in queries.held_graphs(a)):
            return True
    return False


def _holds_code(value: Value) -> bool:
    """True for a function, which may close over the graph."""
    return any(not isinstance(o, (*_PLAIN, Instance, Sequence, Mapping)) for o in options(value))


def by_harness(fact: Fact) -> bool:
    """True if nobody but the analysis itself calls the private method that leads here: its time is not known."""
    if not fact.loops or fact.loops[0][0] >= 0 or not fact.chain:
        return False
    name = fact.chain[0].function.rpartition(".")[2]
    return (name.startswith("_") and not name.startswith("__")) or name.startswith(("load_model", "init_"))


def graph_dropped(region: Region, fact: Fact) -> bool:
    """True if the graph object lost a name, or was reset, between the capture and `fact`."""
    return _dropped_at(region) < fact.order


@lru_cache(maxsize=16)
def _dropped_at(region: Region) -> int:
    mine = queries.graphs(region.graph)
    for later in region.after if mine else ():
        if queries.resets(later, mine):
            return later.order
        if (
            isinstance(later, Bind)
            and later.old is not None
            and is_empty(later.value)
            and any(g in mine for g in queries.held_graphs(later.old))
        ):
            return later.order
    return 1 << 60


def graph_replaced(region: Region, fact: Fact) -> bool:
    """True if the call that makes `fact` has put another graph where this one was kept: both go together."""
    mine = queries.graphs(region.graph)
    return any(
        isinstance(later, Bind)
        and later.order < fact.order
        and later.place.kind in ("attribute", "item")
        and (later.chain, later.loops[:1]) == (fact.chain, fact.loops[:1])
        and later.old is not None
        and any(g in mine for g in queries.held_graphs(later.old))
        and not any(g in mine for g in queries.held_graphs(later.value))
        for later in (region.after if mine else ())
    )


def captured_elsewhere(region: Region, storage: Storage) -> bool:
    """True if another capture of this life uses `storage`."""
    return any(r is not region and (storage in r.inputs or storage in r.writes) for r in _regions(region))


@lru_cache(maxsize=16)
def _regions(region: Region) -> tuple[Region, ...]:
    """Every capture of this life."""
    return tuple(f.begun for f in region.life if isinstance(f, CaptureBegin))


def set_up(region: Region, fact: Fact) -> bool:
    """True if `fact` belongs to the code that captures, and the same line captures again after it."""
    return fact.function == region.function and any(
        _same_site(r, region) and r.begin > fact.order for r in _regions(region)
    )


@lru_cache(maxsize=16)
def _eager_writes(region: Region) -> dict[Storage, list[int]]:
    """Borrowed memory -> the orders at which eager code writes it after the capture."""
    found: dict[Storage, list[int]] = {}
    for fact in region.after:
        if isinstance(fact, Write) and fact.region is None:
            for storage in queries.storages(fact.target, 1):
                found.setdefault(storage, []).append(fact.order)
    return found


def refreshed(region: Region, storage: Storage, start: int, end: int) -> bool:
    """True if eager code writes into `storage` between the two orders."""
    return any(start < order < end for order in _eager_writes(region).get(storage, ()))


def scratch(region: Region, storage: Storage) -> bool:
    """True if the capture fills `storage` before it reads from it."""
    for fact in region.captured:
        if isinstance(fact, Write) and storage in queries.storages(fact.target, 1):
            return fact.how in _FILLS
        if isinstance(fact, (Index, Op)) and _is(fact.result, storage) and not _in_place(fact):
            continue  # a view: nothing is read yet
        if isinstance(fact, Op):
            if _is(fact.kwargs.get("out"), storage) and not any(_is(a, storage) for a in fact.args):
                return True
            if fact.name.rpartition(".")[2] in _FILLS and _is(fact.receiver, storage):
                return True
        if any(_is(v, storage) for v in queries.operands(fact)):
            return False
    return False


def _in_place(fact: Index | Op) -> bool:
    return isinstance(fact, Op) and (fact.name.endswith("_") or "out" in fact.kwargs)


def workspace(region: Region, fact: Bind, storage: Storage) -> bool:
    """True if `fact` grows a scratch buffer: nobody reads the new one, the fault is that the old dies."""
    if not scratch(region, storage):
        return False
    if fact.maybe or any(f.function == fact.function and len(f.chain) > region.depth for f in region.captured):
        return True
    return not any(
        f.region is None and any(t.place == fact.place for v in queries.operands(f) for t in tensors(v, 0))
        for f in region.after
        if not isinstance(f, Index) and f.function != fact.function
    )


def _is(value: Value | None, storage: Storage) -> bool:
    return value is not None and storage in {t.storage for t in tensors(value, 1)}


def in_package(path: str) -> bool:
    """True for a file of an installed package."""
    return "/site-packages/" in path or "/dist-packages/" in path
