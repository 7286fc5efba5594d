"""Places that captured code reads and that something rebinds between replays: the graph goes on with the old memory."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Enter, Fact, Index, Op, Operator, Replay
from graphlint.finding import Note, Problem
from graphlint.knowledge.factories import dtype_of
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Const, Instance, Mapping, Place, Sequence, Storage, Tensor, Unknown, Value, options, tensors

KINDS = (*places.MANUAL, "graphed-callables")
_CASTS = frozenset({"half", "bfloat16", "double"})


@rule("GL009", "stale-input", "error", "what the graph reads is rebound instead of written in place")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in KINDS:
        return
    told: set[Location] = set()
    for problem in (*_rebound(region), *_moved(region), *_made_anew(region), *_arguments(region)):
        if problem.at not in told and not any(_within(problem.at, t) for t in told):
            told.add(problem.at)
            yield problem


def _within(at: Location, other: Location) -> bool:
    return at.path == other.path and other.span.line <= at.span.line <= other.span.end_line


def _rebound(region: Region) -> Iterator[Problem]:
    """`self.x = new`, `d[k] = new`, a loop variable, `param.data = new`."""
    reads = places.reads(region)
    holders = {place.owner for place in reads}
    named = {tensor.storage for place, (_, tensor) in reads.items() if place.kind != "local"}
    lent = places.borrowed(region)
    for fact in region.after:
        if (
            not isinstance(fact, Bind)
            or fact.region is not None
            or fact.how.startswith(("del", "pop", "clear", "remove"))
        ):
            continue
        if places.is_empty(fact.value) or fact.value is None:
            continue
        if fact.place.name == "data" and isinstance(fact.owner, Tensor):
            stale = {fact.owner.storage} & lent
            new = queries.storages(fact.value)
            if stale and not new & stale and places.lives_on(region, fact):
                message = f"`{fact.text}` is given other memory than the graph reads: copy into it with `copy_()`"
                yield _problem(region, fact, message)
        elif fact.place in reads:
            old = reads[fact.place][1].storage
            if _replaces(region, fact, {old}) and not places.workspace(region, fact, old):
                yield _problem(region, fact, _message(fact))
        elif fact.place.kind in ("attribute", "item") and (direct := queries.storages(fact.old, 0) & lent - named):
            # Captured code got it as an argument, which was read from here.
            if _replaces(region, fact, direct):
                yield _problem(region, fact, _message(fact))
        elif (
            _same_kind(region, fact)
            and (held := _container_storages(fact.old, holders, reads))
            and _replaces(region, fact, held)
        ):
            yield _problem(region, fact, _message(fact))


def _message(fact: Bind) -> str:
    name = f"`{fact.text}`" if fact.text else "this name"
    return f"{name} is bound to a new tensor, but the graph goes on reading the one it was captured with: use `copy_()`"


def _replaces(region: Region, fact: Bind, old: set[Storage]) -> bool:
    """True if `fact` puts other memory where captured code found `old`, and a replay follows without a refresh of it."""
    value = fact.value
    assert value is not None
    kinds = [o for o in options(value) if not (isinstance(o, Const) and o.value is None)]
    if not kinds or not all(isinstance(o, (Tensor, Unknown, Mapping, Sequence, Instance)) for o in kinds):
        return False
    new = queries.storages(value)
    if new and new <= old:
        return False
    if old <= new or any(places.captured_elsewhere(region, s) for s in new - old):
        return False
    if not places.lives_on(region, fact):
        return False
    replay = places.next_replay(region, fact)
    end = replay.order if replay is not None else 1 << 60
    return not any(places.refreshed(region, s, fact.order, end) for s in old)


def _same_kind(region: Region, fact: Bind) -> bool:
    """True if `fact` puts one container or record in the place of another (not: a loop over modules)."""
    if fact.place.kind == "local" and fact.function != region.function:
        return False
    olds = (
        [o for o in options(fact.old) if isinstance(o, (Mapping, Sequence, Instance))] if fact.old is not None else []
    )
    if fact.place.kind in ("local", "global") and any(
        t.storage.kind == "parameter" for o in olds for t in tensors(o, 2)
    ):
        return False
    for new in options(fact.value) if fact.value is not None else ():
        if isinstance(new, Unknown) or any(type(new) is type(o) for o in olds):
            return True
    return False


def _container_storages(old: Value | None, holders: set[int], reads: dict[Place, tuple[Fact, Tensor]]) -> set[Storage]:
    """The captured memory that was read out of the container or object which `old` is."""
    if old is None:
        return set()
    owners = {o.id for o in options(old) if isinstance(o, (Mapping, Sequence, Instance))}
    if not owners & holders:
        return set()
    return {tensor.storage for place, (_, tensor) in reads.items() if place.owner in owners}


def _moved(region: Region) -> Iterator[Problem]:
    """Calls that give parameters, or the state of a captured optimizer, new memory."""
    lent = places.borrowed(region)
    for fact in region.after:
        if not isinstance(fact, Op) or fact.region is not None:
            continue
        last = fact.name.rpartition(".")[2]
        message = ""
        if fact.name == "torch.nn.Module.load_state_dict" and _true(fact.argument(2, "assign")):
            if _holds(fact.receiver, lent):
                message = "`load_state_dict(assign=True)` replaces the parameters that the graph reads: load in place"
        elif fact.name.startswith("torch.nn.Module.") and _casts(fact) and _holds(fact.receiver, lent):
            if not _cast_before(region, fact):
                message = (
                    f"`{fact.text}` gives the parameters new memory, the graph keeps the old: cast before the capture"
                )
        elif fact.name == "torch.nn.utils.vector_to_parameters":
            if any(t.storage in lent for t in tensors(fact.argument(1, "parameters") or Unknown(), 3)):
                message = (
                    "`vector_to_parameters` gives the parameters new memory, the graph keeps the old: copy in place"
                )
        elif fact.name in ("Tensor.set_",) and isinstance(fact.receiver, Tensor) and fact.receiver.storage in lent:
            message = f"`{fact.text}` gives a tensor that the graph reads other memory: copy into it with `copy_()`"
        elif last == "load_state_dict" and fact.name.startswith("torch.optim.") and _steps(region, fact.receiver):
            message = "`load_state_dict` replaces the state tensors of an optimizer whose step is captured: capture again after it"
        if message and places.lives_on(region, fact):
            yield _problem(region, fact, message)


def _true(value: Value | None) -> bool:
    return isinstance(value, Const) and bool(value.value)


def _holds(module: Value | None, lent: set[Storage]) -> bool:
    return module is not None and any(t.storage in lent for t in tensors(module, 8))


def _casts(fact: Op) -> bool:
    last = fact.name.rpartition(".")[2]
    if last in _CASTS:
        return True
    return last in ("to", "type") and any(
        dtype_of(v) not in (None, "float32") for v in (*fact.args, *fact.kwargs.values()) if isinstance(v, Value)
    )


def _cast_before(region: Region, fact: Op) -> bool:
    """True if the same cast ran before the capture, so that it changes nothing now."""
    return any(
        isinstance(f, Op) and f.name == fact.name and f.receiver is fact.receiver and _casts(f) for f in region.before
    )


def _steps(region: Region, optimizer: Value | None) -> bool:
    return optimizer is not None and any(
        isinstance(f, Op) and f.receiver is optimizer and f.name.endswith(".step") for f in region.captured
    )


def _made_anew(region: Region) -> Iterator[Problem]:
    """A line that made an input of the graph runs again before a replay, and nobody but the graph would read the result."""
    origin = {s.made: s for s in region.inputs if s.made is not None and s.born is None and s.kind == "fresh"}
    used: set[Storage] = set()
    for fact in reversed(region.life):
        if fact.order <= region.end:
            break
        made = queries.result(fact) if isinstance(fact, (Op, Operator, Index)) else None
        if fact.region is None and made is not None:
            for tensor in (o for o in options(made) if isinstance(o, Tensor)):
                new = tensor.storage
                old = origin.get(new.made) if new.made is not None else None
                if old is None or new is old or new.born is not None or new in used or fact.region is not None:
                    continue
                replay = places.next_replay(region, fact)
                if replay is None or not _kept(region, new, fact, replay) or places.captured_elsewhere(region, new):
                    continue
                if places.refreshed(region, old, fact.order, replay.order) or places.refreshed(
                    region, old, region.end, fact.order
                ):
                    continue
                message = (
                    "makes a new tensor before each replay, but the graph reads the one of the capture: write into that"
                )
                yield _problem(region, fact, message)
        for operand in queries.operands(fact):
            used |= {t.storage for t in tensors(operand, 2)}


def _kept(region: Region, storage: Storage, fact: Fact, replay: Replay) -> bool:
    """True if the new tensor goes somewhere: bound, returned or put into an object before the replay."""
    for later in region.after:
        if fact.order < later.order < replay.order and isinstance(later, Bind) and later.value is not None:
            if storage in queries.storages(later.value):
                return True
    return False


def _arguments(region: Region) -> Iterator[Problem]:
    """A function that captures with its own arguments and replays for later ones without copying them."""
    begin = places.begins(region)
    if begin is None or region.copies_inputs:
        return
    depth = len(begin.chain)
    entered = next(
        (f for f in queries.start_of_call(region, begin) if isinstance(f, Enter) and len(f.chain) == depth), None
    )
    if entered is None:
        return
    given = {t.storage for a in entered.args for t in tensors(a, 0) if t.storage.born is None}
    inside = any(isinstance(f, Replay) and region in f.replayed for f in queries.rest_of_call(region, begin))
    if not inside:
        return
    for storage in given & set(region.inputs):
        first = region.inputs[storage]
        local = any(
            t.storage is storage and t.place is not None and t.place.kind == "local"
            for v in queries.operands(first) for t in tensors(v, 0)
        )  # fmt: skip
        if not local or places.refreshed(region, storage, region.end, 1 << 60):
            continue
        for later in region.after:
            if isinstance(later, Enter) and later.name == entered.name and later.region is None:
                new = {t.storage for a in later.args for t in tensors(a, 0)}
                fresh = storage not in new or any(isinstance(a, Unknown) for a in later.args)
                replayed = any(
                    isinstance(f, Replay) and region in f.replayed for f in queries.rest_of_call(region, later)
                )
                if fresh and replayed:
                    at = first.chain[depth].at if len(first.chain) > depth else first.at
                    message = "captures the argument of the first call: later arguments never reach the graph, copy them into a static input"
                    notes = (
                        Note(region.at, "captured here"),
                        Note(entered.at, f"`{entered.name}` replays for every later argument"),
                    )
                    yield Problem(at, message, notes, function=region.function)
                    return


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    notes = [Note(region.at, "captured here")]
    replay = places.next_replay(region, fact)
    if replay is not None:
        notes.append(Note(replay.at, "replayed here"))
    notes += [Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[-2:]]
    return Problem(fact.at, message, tuple(notes[:5]), function=fact.function)
