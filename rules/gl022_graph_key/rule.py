"""Graphs cached under a key that omits something the capture froze."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.arguments import (
    all_origins,
    arguments,
    by_name,
    enclosing,
    finders,
    identity,
    others,
    scalar,
    stored,
    varies,
)
from graphlint.fact import Bind, Branch, CaptureBegin, Enter, Fact, Index, Iterate, Keep, Op, Replay, Truth
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import (
    STEADY,
    Const,
    Host,
    Instance,
    Mapping,
    Place,
    Sequence,
    Union,
    Unknown,
    Value,
)

from .records import omitted_field
from .state import omitted_state


@rule("GL022", "graph-key", "error", "a graph is cached under a key that omits something the capture froze")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    begin = queries.begin_fact(region)
    store = stored(region, begin) if begin is not None else None
    if begin is None or store is None or store.key is None:
        return
    if isinstance(store.key, Const) and isinstance(store.key.value, str) and not all_origins(store.key):
        return  # a slot with a name, not a table that is looked up
    found = omitted_field(region, begin, store)
    if found is None and not understood(store.key):
        return
    found = found or omitted(region, begin, store) or omitted_state(region, begin, store)
    if found is not None:
        name, fact = found
        message = (
            f"the graph is stored under a key without `{name}`, which the capture froze: "
            "another value finds this graph and gets its result; put it into the key"
        )
        notes = (Note(fact.at, f"`{name}` is frozen here"), *region.way(fact))
        yield Problem(store.at, message, notes[:5], function=store.function)
        return
    if by_name(store.key) and (other := namesake(region, begin)) is not None:
        name, fact = other
        message = (
            f"the graph is stored under the name of `{name}` alone: another function of that name, or the same method "
            f"of another object, finds this graph; put `{name}` itself into the key"
        )
        notes = (Note(fact.at, f"called with another `{name}`"), Note(region.at, "captured here"))
        yield Problem(store.at, message, notes, function=store.function)
        return
    yield from narrower(region, store)
    yield from one_layout(region, store)


def understood(key: Value, depth: int = 2) -> bool:
    """False if a part of the key is an object or unknown: it may hold anything."""
    if isinstance(key, Sequence):
        return depth > 0 and key.rest is None and all(understood(i, depth - 1) for i in key.items)
    return isinstance(key, (Const, Host)) or _whole(key)


def _whole(key: Value) -> bool:
    return not isinstance(key, (Unknown, Instance, Union, Mapping))


def namesake(region: Region, begin: CaptureBegin) -> tuple[str, Enter] | None:
    """A later call that finds the graph with another function than the captured one."""
    for enter in enclosing(region, begin):
        for later in finders(region, enter):
            for name, value in later.given.items():
                held = enter.given.get(name)
                before, now = callee(held) if held is not None else None, callee(value)
                if before is not None and now is not None and before != now:
                    return name, later
    return None


def callee(value: Value) -> tuple[int, int] | None:
    """What tells one function from another: its code, and the object that a method is bound to."""
    receiver = getattr(value, "receiver", None)
    node = getattr(getattr(value, "function", value), "node", None)
    if node is None or isinstance(value, Instance):
        return None
    return id(node), receiver.id if isinstance(receiver, Instance) else 0


def omitted(region: Region, begin: CaptureBegin, store: Keep) -> tuple[str, Fact] | None:
    """A parameter that callers give differently, that captured code looks at and that the key was not made of."""
    if by_name(store.key):
        return None  # one graph for each function: what else the function is given is a frozen argument (GL011)
    for enter in enclosing(region, begin):
        calls = others(region, enter)
        for name, position, value in arguments(enter):
            label = position if isinstance(position, str) else name
            if covers(store.key, label, value) or not varies(region, enter, calls, value, name, position):
                continue
            if isinstance(position, str) and (vague(store.key) or covers(store.key, name, value)):
                continue
            fact = frozen(region, label, value)
            if fact is not None:
                return label, fact
    return None


def vague(key: Value | None) -> bool:
    """True if a part of the key is text or a number of which nothing is known: it may stand for all options."""
    parts = [key, *(key.items if isinstance(key, Sequence) else ())]
    unnamed = [p for p in parts if isinstance(p, Host) and not all_origins(p)]
    return any(p.symbol is None or p.symbol.startswith(STEADY) for p in unnamed)


def covers(key: Value | None, name: str, value: Value) -> bool:
    if any(place.name == name for place in all_origins(key)):
        return True
    parts = [key, *(key.items if isinstance(key, Sequence) else ())]
    return any(part is value for part in parts)


def frozen(region: Region, name: str, value: Value) -> Fact | None:
    """The first captured fact that looks at the parameter."""
    for fact in region.captured:
        values: list[Value] = []
        if isinstance(fact, Enter):
            values = list(fact.given.values())
        elif isinstance(fact, (Branch, Truth, Iterate)):
            values = [fact.value]
        elif isinstance(fact, Index):
            values = [fact.index]
        elif isinstance(fact, Op):
            values = [*fact.args, *fact.kwargs.values()]
        if any(v is value or any(p == value.place or _local(p, name) for p in all_origins(v)) for v in values):
            return fact
    return None


def _local(place: Place, name: str) -> bool:
    return place.name == name and place.kind == "local"


def narrower(region: Region, store: Keep) -> Iterator[Problem]:
    """A buffer that the graph reads, in a table with fewer parts to its key than the graph's own."""
    width, key = parts(store.key), all_origins(store.key)
    for fact in region.before:
        if not (isinstance(fact, Keep) and fact.how == "setitem" and fact.key is not None and fact.region is None):
            continue
        buffers = queries.storages(fact.value, 1) & set(region.inputs)
        if buffers and parts(fact.key) < width and queries.storages(fact.value, 0):
            theirs = all_origins(fact.key)
            if theirs and theirs & key:
                message = (
                    "a buffer that the graph reads is stored under fewer keys than the graph: the next "
                    "capture replaces it "
                    "here, and refreshes no longer reach this graph"
                )
                yield Problem(
                    fact.at,
                    message,
                    (
                        Note(store.at, "the graph has the full key here"),
                        *region.way(region.inputs[next(iter(buffers))]),
                    )[:5],
                    function=fact.function,
                )
                return


def one_layout(region: Region, store: Keep) -> Iterator[Problem]:
    """All graphs hold one value of an argument, and a lookup by size sends every value to them."""
    captured = {f.name: f for f in region.captured if isinstance(f, Enter) and len(f.chain) == region.depth + 1}
    for replay in region.after:
        if not isinstance(replay, Replay) or region not in replay.replayed:
            continue
        past = list(queries.start_of_call(region, replay))
        entered = next((f for f in past if isinstance(f, Enter) and len(f.chain) == len(replay.chain)), None)
        if entered is None or entered.name == store.function:
            continue
        lookup = next((f for f in reversed(past) if isinstance(f, Bind) and queries.held_graphs(f.value)), None)
        choices = [f for f in past if isinstance(f, Branch) and len(f.chain) == len(replay.chain)]
        if lookup is None or any("None" not in c.text and " in " not in c.text for c in choices):
            continue
        for name, first in sent_along(region, entered, captured):
            if all_origins(store.key) & all_origins(first.given.get(name)):
                continue  # the key is made of it: each value has a graph of its own
            message = (
                f"every graph was captured for one value of `{name}`, and this lookup sends all others to them: "
                f"ask for `{name}` before the lookup, or put it into the key"
            )
            notes = (Note(first.at, f"captured with `{name}` fixed"), Note(replay.at, "replayed here"))
            yield Problem(lookup.at, message, notes, function=lookup.function)
            return


def sent_along(region: Region, entered: Enter, captured: dict[str, Enter]) -> Iterator[tuple[str, Enter]]:
    """Arguments that the capture fixed, that eager calls of the same code vary, and that `entered` was given too."""
    for fact in region.life:
        same = captured.get(fact.name) if isinstance(fact, Enter) and fact.region is None else None
        if same is None or not isinstance(fact, Enter):
            continue
        for name, value in fact.given.items():
            held = same.given.get(name)
            if (
                held is None
                or not scalar(held)
                or not scalar(value)
                or not fixed(held)
                or identity(held) == identity(value)
            ):
                continue
            if any(given_too(name, value, e) for e in region.life if isinstance(e, Enter) and e.name == entered.name):
                yield name, same


def given_too(name: str, value: Value, enter: Enter) -> bool:
    """True if a call gets `value`: under the same name, or inside one of its arguments."""
    for other, given in enter.given.items():
        if other == "self":
            continue
        if given is value or (other == name and identity(given) == identity(value)):
            return True
        if isinstance(given, Instance) and any(v is value for v in given.attrs.values()):
            return True
    return False


def fixed(value: Value) -> bool:
    """Written out where the capture is made."""
    if isinstance(value, Sequence):
        return all(isinstance(i, Const) for i in value.items)
    return isinstance(value, Const) and not all_origins(value) - {value.place}


def parts(key: Value | None) -> int:
    return len(key.items) if isinstance(key, Sequence) else 1
