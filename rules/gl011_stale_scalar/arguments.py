"""Arguments of the first call, which captured, that later calls give another value of."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.arguments import (
    all_origins,
    argument,
    arguments,
    by_name,
    enclosing,
    finders,
    given_by_nobody,
    identity,
    stored,
)
from graphlint.fact import Bind, Branch, Enter, Fact, Index, Op, Operator, Truth, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Const, Host, Unknown, Value

from .changes import one_of_several


def frozen_arguments(region: Region) -> Iterator[Problem]:
    """Uses, in the capture, of what a later call gives differently and finds the graph of the first call instead."""
    begin = queries.begin_fact(region)
    if begin is None:
        return
    if one_of_several(region) and ((store := stored(region, begin)) is None or not by_name(store.key)):
        return  # each finds its graph by what it is given (GL022)
    around = enclosing(region, begin)
    for enter in around:
        later = list(finders(region, enter))
        for name, position, value in arguments(enter):
            label = position if isinstance(position, str) else name
            other = next((call for call in later if _differs(region, call, value, name, position)), None)
            if other is None:
                yield from _left_to_callers(region, around, enter, later, label, value)
                continue
            for fact in _uses(region, name, value):
                message = (
                    f"`{label}` decides what is captured at the first call, and a later call gives another value, "
                    "which the replay never sees: make it a device tensor, or keep a graph for each value"
                )
                notes = [Note(region.at, "captured here"), Note(other.chain[-1].at, f"called with another `{label}`")]
                notes += [Note(f.at, f"`{f.function}` called here") for f in fact.chain[region.depth :]][-3:]
                yield Problem(fact.at, message, tuple(notes), function=fact.function)


def _left_to_callers(
    region: Region, around: list[Enter], enter: Enter, later: list[Enter], name: str, value: Value
) -> Iterator[Problem]:
    """A flag or number that callers choose, that captured code uses, and that no code between them and the graph asks.

    A number that only decides between arms may well choose the same one for all values that callers give.
    """
    if not later or not given_by_nobody(value):
        return
    names = {e.name for e in around}
    if any(
        isinstance(f, (Branch, Truth)) and f.region is None and f.function in names and _is(f.value, name, value)
        for f in region.life
    ):
        return  # the wrapper itself asks: to capture again, or not to use the graph
    fact = next(_uses(region, name, value), None)
    if fact is not None:
        message = (
            f"`{name}` is frozen at the first call, and no later call's `{name}` is looked at: a caller who passes "
            "another value gets the first one's graph; keep a graph for each value, or make it a static input"
        )
        notes = [Note(region.at, "captured here"), Note(enter.defined, f"`{name}` comes from callers of this")]
        notes += [Note(f.at, f"`{f.function}` called here") for f in fact.chain[region.depth :]][-3:]
        yield Problem(fact.at, message, tuple(notes), severity="warning", function=fact.function)


def _differs(region: Region, call: Enter, value: Value, name: str, position: int | str | None) -> bool:
    """True if `call` certainly gives another value: other constants, or what it was read from is bound in between."""
    given = argument(call, name, position)
    if given is None or isinstance(given, Unknown) or call.maybe or identity(given) == identity(value):
        return False
    if isinstance(given, Const) and isinstance(value, Const):
        return True
    read = all_origins(given)
    return any(
        isinstance(fact, Bind) and fact.place in read and fact.region is None and fact.order < call.order
        for fact in region.after
    )


def _uses(region: Region, name: str, value: Value) -> Iterator[Fact]:
    """Captured facts that look at `value`: a branch on a flag, a number given to the GPU, a bound."""
    for fact in region.captured:
        if isinstance(fact, Branch):
            # Other numbers may well choose the same arm; another flag or name does not.
            looked: list[Value] = [fact.value] if _flag(value) else []
        elif isinstance(fact, (Op, Operator, Index)):
            looked = queries.operands(fact)
        elif isinstance(fact, Write):
            looked = [v for v in (fact.source, fact.index) if v is not None]
        else:
            continue
        if any(_is(v, name, value) for v in looked):
            yield fact


def _flag(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, (bool, str))
    return isinstance(value, Host) and value.kind in ("bool", "string")


def _is(found: Value, name: str, value: Value) -> bool:
    """True if `found` is the argument `value`, read under its name or handed on."""
    if found is value:
        return True
    places = all_origins(found)
    read = any(p.name == name and p.kind == "local" for p in places)
    # Of one run, all that nobody gives under a name comes from the one call that the analysis makes.
    same = identity(found) == identity(value) or (given_by_nobody(found) and given_by_nobody(value))
    return value.place in places or (read and same)
