"""Exception handlers around a capture: which swallow its failure, and which run only if it never began."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Bind, Branch, Enter, Fact, HostRead, Op, Operator, Raises, Replay, Return, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.source import Location
from graphlint.value import Const, Place, Value, options, origins


def swallowed(region: Region) -> Iterator[Problem]:
    """An except around the capture that neither re-raises nor gives the graph up, and a replay afterwards."""
    replays = [f for f in region.after if isinstance(f, Replay) and region in f.replayed]
    for fact in region.life:
        if not (isinstance(fact, Raises) and fact.handler and fact.ended is not None and region in fact.protects):
            continue
        handled = [f for f in region.life if fact.began <= f.order < fact.order]
        gives_up = any(map(gives_way, (f for f in handled if f.order > fact.began)))
        flags = {f.place for f in region.life if isinstance(f, Bind) and region.end < f.order < fact.began}
        later = [r for r in replays if r.order > fact.order and not queries.asked_before(region, r, flags)]
        if fact.ended == "return":
            later = [r for r in after_return(region, fact, later) if not answer_tested(region, fact, r)]
        if fact.ended in ("", "return") and not gives_up and later:
            message = "swallows a failed capture: the graph holds nothing, and the current stream is left capturing"
            notes = (Note(region.at, "captured here"), Note(later[0].at, "replayed here all the same"))
            yield Problem(fact.at, message, notes, function=fact.function)


def after_return(region: Region, handler: Raises, replays: list[Replay]) -> list[Replay]:
    """The replays that a handler which returns does not keep the program from: those after its call is over."""
    skipped = {f.order for f in queries.rest_of_call(region, handler)}
    return [r for r in replays if r.order not in skipped]


def answer_tested(region: Region, handler: Raises, replay: Replay) -> bool:
    """True if the caller looks at what the handler's call answered before it replays."""
    if not handler.chain or not tells(region, handler):
        return False
    call = handler.chain[-1].at
    caller = handler.chain[:-1]
    answers: set[Place] = set()
    for fact in region.life[region.position(handler.order) : region.position(replay.order)]:
        if fact.chain != caller:
            continue
        if isinstance(fact, Bind) and _within(call, fact.at):
            answers.add(fact.place)
        elif isinstance(fact, Branch) and (_within(call, fact.at) or origins(fact.value) & answers):
            return True
    return False


def tells(region: Region, handler: Raises) -> bool:
    """False if the handler returns what the call returns without a failure."""
    around = [*queries.start_of_call(region, handler), *queries.rest_of_call(region, handler)]
    returned = [f for f in around if isinstance(f, Return) and f.chain == handler.chain]
    failed = [f.value for f in returned if handler.began < f.order < handler.order]
    passed = [f.value for f in returned if not handler.began < f.order < handler.order]
    if not all(isinstance(v, Const) for v in (*failed, *passed)):
        return True
    return not {repr(v.value) for v in failed if isinstance(v, Const)} <= {
        repr(v.value) for v in passed if isinstance(v, Const)
    }  # fmt: skip


def _within(inner: Location, outer: Location) -> bool:
    one, all_ = inner.span, outer.span
    return (
        inner.path == outer.path
        and (all_.line, all_.column) <= (one.line, one.column)
        and (one.end_line, one.end_column) <= (all_.end_line, all_.end_column)
    )


def gives_way(fact: Fact) -> bool:
    """True if a handler's fact takes note of the failure: it re-raises, returns nothing, or sets an object or flag."""
    if isinstance(fact, Bind):
        return fact.place.kind != "local" or isinstance(fact.value, Const)
    return isinstance(fact, Raises) or (isinstance(fact, Return) and _is_nothing(fact.value))


def _is_nothing(value: Value) -> bool:
    return all(isinstance(o, Const) and not o.value for o in options(value))


def refusals(region: Region) -> Iterator[tuple[int, int]]:
    """Handlers that run only if `capture_begin()` itself was refused: nothing else of what they guard can fail."""
    handler: Raises | None = None
    for fact in region.captured:
        if isinstance(fact, Raises) and fact.handler and region in fact.protects:
            if handler is None:
                handler = fact
            elif fact.began == handler.order:
                yield handler.order, fact.order
                handler = None
        elif handler is None and isinstance(fact, (Op, Operator, Write, HostRead, Enter, Unfollowed)):
            return
