"""Warm-up on placeholder data that leaves its traces in statistics, weights and caches."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Fact, Op, Replay, Write
from graphlint.finding import Note, Problem
from graphlint.knowledge.tensor_methods import kind_of
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Const, Instance, Sequence, Storage, Tensor, tensors

from . import slots

CONSTANT = (
    ".zeros", ".ones", ".empty", ".full", ".zeros_like", ".ones_like", ".empty_like", ".full_like", ".new_zeros",
    ".new_ones", ".new_empty", ".new_full",
)  # fmt: skip
DRAWS = ("normal_", "uniform_", "random_", "exponential_", "bernoulli_")
RANDOM = (".rand", ".randn", ".randint", ".rand_like", ".randn_like")
OPTIMIZED = "the weights and the optimizer's state"
#: So many facts before a write tell how its index was computed.
_NEAR = 4000
CONSTANT_WRITES = ("fill_", "zero_")


@rule("GL023", "warmup-side-effect", "warning", "a warm-up on placeholder data changes statistics, weights or caches")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    begin = queries.begin_fact(region)
    if begin is None:
        return
    if region.kind == "graphed-callables":
        yield from graphed(region, begin)
    elif not region.warm:
        yield from manual(region, begin)


def graphed(region: Region, begin: Fact) -> Iterator[Problem]:
    """make_graphed_callables runs the callable three times on the samples."""
    norms = [f for f in region.captured if updates_statistics(f)]
    counted = [
        f for f in region.captured if isinstance(f, Write) and any(_buffer(s) for s in queries.storages(f.target, 1))
    ]
    placeholders = placeholder(region, sample_storages(region), region.begin, RANDOM)
    if not (norms or counted) or placeholders is None or restored(region, region.end):
        return
    what = "batch statistics" if norms else "buffers"
    message = (
        f"`make_graphed_callables` warms up in training mode on placeholder data, which enters the module's {what}: "
        "save the buffers before and restore them in place"
    )
    notes = (Note(placeholders, "placeholder made here"), *region.way((norms or counted)[0]))
    yield Problem(region.at, message, notes[:5], function=region.function)


def manual(region: Region, begin: Fact) -> Iterator[Problem]:
    captured = {key for f in region.captured for key in same_work(f)}
    inputs = refreshed_inputs(region)
    data = data_among(region, inputs)
    if inputs and not data:
        return  # what the work runs on stays what it was
    for fact in region.before:
        if fact.region is not None or not captured & set(same_work(fact)):
            continue
        changed = ""
        if updates_statistics(fact):
            changed = "the running statistics"
        elif isinstance(fact, Op) and fact.name.startswith("torch.optim.") and fact.name.endswith(".step"):
            changed = OPTIMIZED
        elif isinstance(fact, Write) and accumulates(region, fact, inputs):
            changed = _state(fact)
        if not changed:
            continue
        more = RANDOM if changed == OPTIMIZED else ()
        made = placeholder(region, data, fact.order, more)
        if made is None or restored(region, fact.order, fact) or (more and drawn_alike(region, data)):
            continue
        message = (
            f"the warm-up runs on placeholder data and changes {changed}, and nothing restores it before the "
            "first replay"
        )
        at, function = _call(fact, begin)
        notes = [Note(made, "placeholder made here"), Note(region.at, "captured here")]
        if at != fact.at:
            notes.append(Note(fact.at, "changed here"))
        yield Problem(at, message, tuple(notes), function=function)
        return


def _state(fact: Write) -> str:
    """What a write changes, as the message calls it: torch's own functions do not name it."""
    if fact.text and not fact.text.startswith(("torch.", "F.")):
        return f"`{fact.text}`"
    place = next((t.place for t in tensors(fact.target, 0) if t.place is not None), None)
    return f"`{place.name}`" if place is not None else "state that later runs start from"


def _call(fact: Fact, begin: Fact) -> tuple[Location, str]:
    """The warm-up call in the function that also captures, or the nearest call that both share."""
    depth = 0
    while depth < min(len(fact.chain), len(begin.chain)) and fact.chain[depth] == begin.chain[depth]:
        depth += 1
    if depth < len(fact.chain):
        return fact.chain[depth].at, fact.chain[depth - 1].function if depth else ""
    return fact.at, fact.function


def updates_statistics(fact: Fact) -> bool:
    if not isinstance(fact, Op):
        return False
    if fact.name.startswith("torch.nn.") and "BatchNorm" in fact.name and fact.name.endswith(".forward"):
        training = fact.receiver.attrs.get("training") if isinstance(fact.receiver, Instance) else None
        tracks = fact.receiver.kwargs.get("track_running_stats") if isinstance(fact.receiver, Instance) else None
        frozen = isinstance(tracks, Const) and not tracks.value
        return not frozen and not (isinstance(training, Const) and not training.value)
    if fact.name.endswith("functional.batch_norm"):
        flag = fact.argument(5, "training")
        return isinstance(flag, Const) and bool(flag.value)
    return False


def same_work(fact: Fact) -> list[object]:
    """What two facts share if one is the eager run of the other: the place, or the object and the memory."""
    if isinstance(fact, Op):
        return [fact.at] + ([(fact.name, fact.receiver.id)] if isinstance(fact.receiver, Instance) else [])
    if isinstance(fact, Write):
        return [fact.at, *((fact.how, s) for s in queries.storages(fact.target, 1))]
    return [fact.at]


def accumulates(region: Region, fact: Write, inputs: set[Storage]) -> bool:
    """True if captured work changes this memory from what it was: a cursor, a cache, a running sum."""
    if fact.how in ("copy_", "fill_", "zero_", "out=", *DRAWS) and fact.index is None:
        return False
    if fact.index is not None and not fact.how.endswith("add_"):
        where = queries.storages(fact.index, 2)
        if not where or where & inputs or given_with_each_run(region, fact, inputs):
            # The place is given with each run, which overwrites what stood there: harm if that was in use.
            return bool(where) and slots.overwrites(region, fact)
    mine = {t.storage for t in tensors(fact.target, 1)}
    for other in region.captured:
        if isinstance(other, Write) and mine & queries.storages(other.target, 1):
            if other.at != fact.at and other.how in ("zero_", "fill_", "copy_", *DRAWS) and other.index is None:
                return False  # made anew by each run
            if other.at == fact.at and other.how == fact.how:
                break
    return bool(mine & set(region.writes)) and all(s.kind not in ("grad", "parameter") for s in mine)


def given_with_each_run(region: Region, fact: Write, inputs: set[Storage]) -> bool:
    """True if the index is computed from what is refreshed, and from nothing that runs leave behind."""
    came_from = _index_sources(region, fact)
    return bool(came_from & inputs) and not came_from & set(region.writes)


def _index_sources(region: Region, fact: Write) -> set[Storage]:
    if fact.index is None:
        return set()
    until = region.position(fact.order)
    near = region.life[max(0, until - _NEAR) : until]
    made = queries.makers(f for f in near if isinstance(queries.result(f), (Tensor, Sequence)))
    return queries.sources(fact.index, made)[0]


def _buffer(storage: Storage) -> bool:
    return storage.kind in ("buffer", "fresh") and storage.born is None


def sample_storages(region: Region) -> set[Storage]:
    given = region.options.get("sample_args")
    return queries.storages(given) if given is not None else set(region.inputs)


def refreshed_inputs(region: Region) -> set[Storage]:
    """Static inputs: what the graph reads and eager code writes after the capture."""
    return {
        s
        for f in region.after
        if isinstance(f, Write)
        and f.region is None
        and (f.how in ("copy_", "fill_", "normal_", "uniform_") or f.index is not None)
        for s in queries.storages(f.target, 1)
        if s in region.inputs and s not in region.writes
    }


def data_among(region: Region, inputs: set[Storage]) -> set[Storage]:
    """The refreshed inputs without settings: single numbers (a rate, a weight) beside wider data.

    Empty where nothing but settings is refreshed, and the data is there for good. Single whole numbers are tokens and
    positions as often as settings."""
    single: set[Storage] = set()
    wide: set[Storage] = set()
    for fact in region.life:
        made = queries.result(fact)
        if isinstance(made, Tensor) and made.view is None:
            number = made.numel_is_one and kind_of(made.dtype) not in ("int", "bool")
            (single if number else wide).add(made.storage)
    data = inputs - single
    steady = any(s.kind in ("fresh", "unknown") and s not in region.writes and s in wide for s in region.inputs)
    return data if data or steady else inputs


def drawn_alike(region: Region, inputs: set[Storage]) -> bool:
    """True if what is trained on is drawn at random as the placeholders were: the warm-up trains on nothing else."""
    made = queries.makers(region.life)

    def drawn(storages: set[Storage]) -> bool:
        first = [made[s][0] for s in storages if s in made]
        return bool(first) and all(isinstance(f, Op) and f.name.endswith(RANDOM) for f in first)

    refreshed = [
        f for f in region.after if isinstance(f, Write) and f.region is None and queries.storages(f.target, 1) & inputs
    ]
    given = [f for f in refreshed if f.how not in DRAWS]
    written = {s for f in given for s in queries.storages(f.source, 1)}
    return drawn(inputs) and bool(refreshed) and (not given or drawn(written))


def placeholder(region: Region, inputs: set[Storage], until: int, more: tuple[str, ...]) -> Location | None:
    """Where the placeholder was made, if every one of `inputs` held nothing but constants up to `until`."""
    if not inputs:
        return None
    found: Location | None = None
    for storage in inputs:
        history = queries.makers(f for f in region.life if f.order < until).get(storage, [])
        if not history:
            return None
        for fact in history:
            if isinstance(fact, Op) and fact.name.endswith("_"):
                continue  # its Write says the same
            constant = isinstance(fact, Op) and fact.name.endswith((*CONSTANT, *more))
            constant = constant or (isinstance(fact, Op) and fact.name.endswith((".cuda", ".to", ".requires_grad_")))
            constant = constant or (isinstance(fact, Write) and _constant_write(fact))
            if not constant:
                return None
        found = history[0].at
    return found


def _constant_write(fact: Write) -> bool:
    return fact.how in CONSTANT_WRITES and (fact.source is None or isinstance(fact.source, Const))


def restored(region: Region, since: int, changed: Fact | None = None) -> bool:
    """True if state is put back in place after the warm-up and before the first replay.

    A cursor put back is enough for the rows that are written where it stands: they are written again. A slot that was
    in use is not."""
    mine = queries.storages(changed.target, 1) if isinstance(changed, Write) else None
    if isinstance(changed, Write) and mine is not None and not slots.overwrites(region, changed):
        mine |= _index_sources(region, changed) & set(region.writes)
    for fact in region.life:
        if fact.order <= since or fact.region is not None:
            continue
        if isinstance(fact, Replay) and region in fact.replayed:
            return False
        if isinstance(fact, Op) and fact.name.endswith(
            (".load_state_dict", ".reset_running_stats", ".reset_parameters")
        ):
            return True
        if isinstance(fact, Write) and fact.how in ("copy_", "zero_", "fill_", "setitem", *DRAWS):
            touched = queries.storages(fact.target, 1)
            if mine is not None and mine & touched:
                return True
            if mine is None and (not touched or any(s.kind in ("parameter", "buffer", "unknown") for s in touched)):
                return True
    return False
