"""Places that captured code reads and that something rebinds between replays: the graph goes on with the old memory."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Bind, Enter, Fact, Index, Keep, Op, Operator, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.knowledge.factories import dtype_of
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import (
    Const,
    Instance,
    Mapping,
    Place,
    Sequence,
    Storage,
    Tensor,
    Unknown,
    Value,
    options,
    origins,
    tensors,
)

KINDS = (*places.MANUAL, "graphed-callables")
_REFRESHES = re.compile(r"copy|refresh|update|fill|prepare|load", re.IGNORECASE)
_CASTS = frozenset({"half", "bfloat16", "double"})


@rule("GL009", "stale-input", "error", "what the graph reads is rebound instead of written in place")
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in KINDS:
        return
    told: set[Location] = set()
    for problem in (*_rebound(region), *_moved(region), *_made_anew(region), *_arguments(region), *_missed(region)):
        if problem.at not in told and not any(_within(problem.at, t) for t in told):
            told.add(problem.at)
            yield problem
    if not told:
        yield from _found_by_name(region)


def _within(at: Location, other: Location) -> bool:
    return at.path == other.path and other.span.line <= at.span.line <= other.span.end_line


def _rebound(region: Region) -> Iterator[Problem]:
    """`self.x = new`, `d[k] = new`, a loop variable, `param.data = new`."""
    # A graphed callable copies what it is called with into its sample arguments.
    copied = queries.storages(region.options.get("sample_args"), 4)
    reads = {place: read for place, read in places.reads(region).items() if read[1].storage not in copied}
    holders = {place.owner for place in reads}
    named = {tensor.storage for place, (_, tensor) in reads.items() if place.kind != "local"}
    lent = places.borrowed(region) - copied
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
            was = queries.storages(fact.old, 0) & lent or {reads[fact.place][1].storage}
            if _replaces(region, fact, was) and not any(places.workspace(region, fact, s) for s in was):
                yield _problem(region, fact, _message(fact))
        elif fact.place.kind in ("attribute", "item") and (direct := _owned(fact.old) & lent - named):
            # Captured code got it as an argument, which was read from here.
            if _replaces(region, fact, direct):
                yield _problem(region, fact, _message(fact))
        elif (
            _same_kind(region, fact)
            and (held := _container_storages(fact.old, holders, reads))
            and _replaces(region, fact, held)
            and not _blank(fact.value)
            and not all(places.refreshed(region, s, region.end, 1 << 60) for s in held)
        ):
            yield _problem(region, fact, _message(fact))


def _blank(value: Value | None) -> bool:
    """True for a record without any tensor: it clears, it does not replace."""
    found = [o for o in options(value) if isinstance(o, Instance)] if value is not None else []
    return bool(found) and all(
        not o.external and all(isinstance(a, Const) for a in o.attrs.values()) for o in found
    )  # fmt: skip


def _owned(value: Value | None) -> set[Storage]:
    return {s for s in queries.storages(value, 0) if s.kind != "unknown"}


def _message(fact: Bind) -> str:
    name = f"`{fact.text}`" if fact.text else "this name"
    return f"{name} is bound to a new tensor, but the graph goes on reading the one it was captured with: use `copy_()`"


def _replaces(region: Region, fact: Bind, old: set[Storage]) -> bool:
    """True if `fact` puts other memory in the place of `old`, and a replay follows without a refresh of that."""
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
    if not places.lives_on(region, fact) or places.set_up(region, fact):
        return False
    replay = places.next_replay(region, fact)
    if fact.place.kind == "local" and (replay is None or not queries.inside(replay, fact)):
        return False  # the name is gone before the replay
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
            message = (
                "`load_state_dict` replaces the state tensors of an optimizer whose step is captured: capture again "
                "after it"
            )
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
    """A line that made an input runs again before a replay, and nobody but the graph would read the result."""
    origin = {s.made: s for s in region.inputs if s.made is not None and s.born is None and s.kind == "fresh"}
    used: set[Storage] = set()
    if not origin:
        return
    vague, kept = _vague_refreshes(region), _kept_at(region)
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
                if replay is None or places.captured_elsewhere(region, new):
                    continue
                span = range(fact.order + 1, replay.order)
                if any(o in span for o in vague) or not any(o in span for o in kept.get(new, ())):
                    continue
                if places.refreshed(region, old, region.end, replay.order):
                    continue
                message = (
                    "makes a new tensor before each replay, but the graph reads the one of the capture: write into that"
                )
                yield _problem(region, fact, message)
        for operand in fact.args if isinstance(fact, Unfollowed) else queries.operands(fact):
            used |= {t.storage for t in tensors(operand, 3)}


def _vague_refreshes(region: Region) -> list[int]:
    """Orders at which something that is not known is copied into: a loop over attributes, a call not followed."""
    found: list[int] = []
    for fact in region.after:
        if isinstance(fact, Write) and fact.how == "copy_":
            if all(t.storage.kind == "unknown" for t in tensors(fact.target, 0)):
                found.append(fact.order)
        elif isinstance(fact, Unfollowed) and _REFRESHES.search(fact.text):
            found.append(fact.order)
    return found


def _kept_at(region: Region) -> dict[Storage, list[int]]:
    """New memory -> the orders at which it is bound to something after the capture."""
    found: dict[Storage, list[int]] = {}
    for fact in region.after:
        if isinstance(fact, Bind) and fact.value is not None:
            for storage in queries.storages(fact.value):
                found.setdefault(storage, []).append(fact.order)
    return found


def _arguments(region: Region) -> Iterator[Problem]:
    """A function that captures with its own arguments and replays for later ones without copying them."""
    begin = places.begins(region)
    if begin is None or region.copies_inputs:
        return
    depth = len(begin.chain)
    entered = _entry(region, begin)
    rest = list(queries.rest_of_call(region, begin))
    if entered is None or not any(isinstance(f, Replay) and (region in f.replayed or not f.replayed) for f in rest):
        return
    at = _given(region, entered, depth) if _called_again(region, entered) else None
    if at is None and begin.maybe:
        at = _unknown_given(region, entered, rest)
    if at is not None:
        message = (
            "captures the arguments of the first call: later ones never reach the graph, copy them into static inputs "
            "before the replay"
        )
        notes = (Note(region.at, "captured here"), Note(entered.at, f"`{entered.name}` replays for every later call"))
        yield Problem(at, message, notes, function=region.function)


def _entry(region: Region, begin: Fact) -> Enter | None:
    """Where the function that `begin` stands in was entered."""
    depth = len(begin.chain)
    facts = queries.start_of_call(region, begin)
    return next((f for f in facts if isinstance(f, Enter) and len(f.chain) == depth), None)


def _called_again(region: Region, entered: Enter) -> bool:
    """True if the function runs again with other tensors, and replays."""
    given = {t.storage for a in entered.args for t in tensors(a, 0)}
    for later in region.after:
        if isinstance(later, Enter) and later.name == entered.name and later.region is None:
            new = {t.storage for a in later.args for t in tensors(a, 0)}
            if not given <= new or any(isinstance(a, Unknown) for a in later.args):
                calls = queries.rest_of_call(region, later)
                return any(isinstance(f, Replay) and region in f.replayed for f in calls)
    return False


def _given(region: Region, entered: Enter, depth: int) -> Location | None:
    """Where captured work first uses a tensor argument by its own name; None if there is none, or it is refreshed."""
    given = {t.storage for a in entered.args for t in tensors(a, 0) if t.storage.born is None}
    for storage in given & set(region.inputs):
        first = region.inputs[storage]
        local = any(
            t.storage is storage and t.place is not None and t.place.kind == "local"
            for v in queries.operands(first)
            for t in tensors(v, 0)
        )
        if local and not places.refreshed(region, storage, region.end, 1 << 60):
            return first.chain[depth].at if len(first.chain) > depth else first.at
    return None


def _unknown_given(region: Region, entered: Enter, rest: list[Fact]) -> Location | None:
    """Where arguments that nobody was seen to give go into the capture, and nothing is copied from them."""
    names = {n for n, v in entered.given.items() if n not in ("self", "cls") and _vague(v)}
    if not names or any(isinstance(f, Write) and f.region is None for f in rest):
        return None
    if any(isinstance(f, Write) and f.region is None and f.function == entered.name for f in region.life):
        return None
    for fact in region.captured:
        if isinstance(fact, (Enter, Op, Unfollowed)) and len(fact.chain) <= len(entered.chain) + 1:
            extra = list(fact.given.values()) if isinstance(fact, Enter) else []
            for value in (*fact.args, *extra):
                inner = value.rest if isinstance(value, Sequence) else value
                if isinstance(inner, Unknown) and inner.hint in names:
                    return fact.chain[-1].at if isinstance(fact, Enter) else fact.at
    return None


def _found_by_name(region: Region) -> Iterator[Problem]:
    """A graph kept under the name of its function, and replayed for a call with other tensors."""
    begin = places.begins(region)
    entered = _entry(region, begin) if begin is not None else None
    if begin is None or entered is None or region.copies_inputs or not _kept_by_name(region, begin):
        return
    for later in region.after:
        if not isinstance(later, Enter) or later.name != entered.name or later.region is not None:
            continue
        for fact in queries.rest_of_call(region, later):
            if isinstance(fact, Write):
                break
            if isinstance(fact, Replay) and region in fact.replayed:
                name = next((n for n, v in later.given.items() if _others(entered.given.get(n), v)), None)
                if name is not None:
                    message = (
                        f"replays a graph that is found by its function's name alone, whatever `{name}` holds: it goes "
                        "on with what the call that captured it was given; copy that into static inputs, or make it "
                        "part of the key"
                    )
                    notes = (Note(region.at, "captured here"), *_called(fact))
                    yield Problem(fact.at, message, notes, function=fact.function)
                    return
                break


def _called(fact: Fact) -> tuple[Note, ...]:
    return tuple(Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[1:][-2:])


def _kept_by_name(region: Region, begin: Fact) -> bool:
    """True if the graph is put into a table under the `__name__` of a function."""
    mine = queries.graphs(region.graph)
    for fact in (*queries.start_of_call(region, begin), *queries.rest_of_call(region, begin)):
        if not isinstance(fact, Keep) or fact.how != "setitem" or fact.key is None:
            continue
        if any(g in mine for g in queries.held_graphs(fact.value)):
            return any(place.name == "__name__" for place in origins(fact.key))
    return False


def _others(was: Value | None, now: Value) -> bool:
    """True if an argument is, or holds, another tensor than at the capture, or something unknown that may be one."""
    if was is None:
        return False
    if queries.storages(now, 2) - queries.storages(was, 2):
        return True
    known = {v.place for v in _unknowns(was)}
    return any(v.place not in known for v in _unknowns(now))


def _unknowns(value: Value) -> list[Unknown]:
    """Arguments that nobody was seen to pass to the calls around."""
    held = value.items if isinstance(value, Sequence) and value.kind == "tuple" else [value]
    return [v for v in held if isinstance(v, Unknown) and v.place is not None and v.place.kind == "local"]


def _vague(value: Value) -> bool:
    """True for `*args` that nobody was seen to pass."""
    return isinstance(value, Sequence) and value.kind == "tuple" and isinstance(value.rest, Unknown)


def _missed(region: Region) -> Iterator[Problem]:
    """A static copy of an argument that later calls get anew and do not copy, while others are."""
    if region.copies_inputs:
        return
    written = {
        t.storage for f in region.after if isinstance(f, Write) and f.region is None for t in tensors(f.target, 1)
    }
    static = {s for s in region.inputs if s.kind == "fresh" and s.born is None and s not in region.writes}
    if not written & static or not static - written:
        return
    sources = _copied_arguments(region)
    for storage in static - written:
        name, made = sources.get(storage, ("", None))
        if made is None:
            continue
        for replay in places.replays(region):
            entered = _entry(region, replay)
            value = entered.given.get(name) if entered is not None else None
            if entered is None or value is None or not _fresh_data(value, storage):
                continue
            sibling = next(
                (f for f in region.after if isinstance(f, Write) and f.region is None and _static(f, static)), None
            )
            message = (
                f"`{name}` is not copied into its static input before this replay, while others are: the "
                "graph goes on with "
                "the one of the capture"
            )
            notes = [Note(made.at, f"the static copy of `{name}`"), Note(region.at, "captured here")]
            if sibling is not None:
                notes.insert(0, Note(sibling.at, "other inputs are refreshed here"))
            yield Problem(replay.at, message, tuple(notes), function=replay.function)
            return


def _static(fact: Write, static: set[Storage]) -> bool:
    return bool(queries.storages(fact.target, 1) & static)


def _fresh_data(value: Value, storage: Storage) -> bool:
    """True for a tensor, or something unknown, that is not the static input itself."""
    found = tensors(value, 3)
    return all(t.storage is not storage for t in found) and (bool(found) or isinstance(value, Unknown))


def _copied_arguments(region: Region) -> dict[Storage, tuple[str, Fact]]:
    """Static inputs that were made as a copy of an argument: the argument's name, and where the copy was made."""
    found: dict[Storage, tuple[str, Fact]] = {}
    given: list[tuple[str, set[Storage]]] = []
    for fact in region.before:
        if isinstance(fact, Enter):
            given += [(n, queries.storages(v, 3)) for n, v in fact.given.items() if n not in ("self", "cls")]
        elif isinstance(fact, Op) and fact.name.rpartition(".")[2] in (
            "clone",
            "empty_like",
            "zeros_like",
            "ones_like",
        ):
            source = fact.receiver or (fact.args[0] if fact.args else None)
            for made in queries.storages(fact.result, 0):
                for origin in tensors(source, 0) if source is not None else ():
                    name = next((n for n, held in reversed(given) if origin.storage in held), "")
                    if not name and origin.place is not None and origin.place.kind == "local":
                        name = origin.place.name
                    if name:
                        found[made] = (name, fact)
    return found


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    notes = [Note(region.at, "captured here")]
    replay = places.next_replay(region, fact)
    if replay is not None:
        notes.append(Note(replay.at, "replayed here"))
    notes += [Note(frame.at, f"`{frame.function}` called here") for frame in fact.chain[-2:]]
    return Problem(fact.at, message, tuple(notes[:5]), function=fact.function)
