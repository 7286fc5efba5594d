"""A function that captures with its own arguments and replays for later calls without copying theirs."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import places, queries
from graphlint.fact import Enter, Fact, Op, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Sequence, Storage, Unknown, Value, origins, tensors


def captured_once(region: Region) -> Iterator[Problem]:
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


def found_by_name(region: Region) -> Iterator[Problem]:
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
    call = (*queries.start_of_call(region, begin), *queries.rest_of_call(region, begin))
    key = next((f.key for f in queries.keeps(region, call) if f.how == "setitem" and f.key is not None), None)
    return key is not None and any(place.name == "__name__" for place in origins(key))


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


def one_not_copied(region: Region) -> Iterator[Problem]:
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
            if entered.order < made.order < replay.order:
                continue  # the call that captures: its copy is as new as its argument
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
