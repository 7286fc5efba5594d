"""Capture API misuse: what torch refuses, and captures whose work never runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphlint import queries
from graphlint.fact import (
    Bind,
    CaptureBegin,
    CaptureEnd,
    Enter,
    Fact,
    HostRead,
    Iterate,
    Op,
    Operator,
    Raises,
    Replay,
    Return,
    Write,
)
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.value import Const, Instance, Sequence, Tensor, Unknown, options, parts, tensors

from .eviction import replayed_after_eviction
from .handlers import refusals, swallowed

MANUAL = ("graph", "begin-end", "accelerator-graph", "graphed-callables")
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook")


@rule("GL020", "capture-misuse", "error", "the capture API in an order or place that torch refuses")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "never-entered":
        yield from never_entered(region)
    if region.kind not in MANUAL:
        return
    begin = queries.begin_fact(region)
    if begin is None:
        return
    yield from nested(region, begin)
    yield from captured_work(region)
    yield from captured_twice(region, begin)
    yield from swallowed(region)
    yield from never_run(region, begin)
    yield from replayed_after_reset(region, begin)
    yield from replayed_after_eviction(region)
    yield from replayed_too_early(region, begin)
    if region.kind == "begin-end":
        yield from left_open(region, begin)
        yield from streams(region, begin)
    if region.kind == "graphed-callables":
        yield from graphed_callables(region, begin)


def never_entered(region: Region) -> Iterator[Problem]:
    replay = next((f for f in region.before if isinstance(f, Replay) and f.graph is region.graph), None)
    if replay is not None:
        message = "this capture is made but never entered: without `with` nothing is captured, and the replay raises"
        yield Problem(region.at, message, (Note(replay.at, "replayed here"),), function=replay.function)


def nested(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    outer = begin.region
    segments = region.kind == "begin-end" and outer is not None and outer.kind == "begin-end"
    if segments and not begin.complete:
        return  # segments of one forward, ended where it could not be followed
    if outer is not None and outer.kind in MANUAL:
        message = "a capture begins inside another capture: only one can be under way, and both fail"
        yield Problem(region.at, message, outer.way(begin), function=region.function)


def captured_work(region: Region) -> Iterator[Problem]:
    """Replays, garbage collection and dying graphs inside the capture."""
    begin = queries.begin_fact(region)
    within = {f.begun for f in region.captured if isinstance(f, CaptureBegin)}
    for fact in region.captured:
        if begin is None or not queries.inside(fact, begin):
            continue  # a capture that was left open: told where it begins
        match fact:
            case Replay() if begin.maybe and region.kind == "graphed-callables":
                continue  # graphed once, and the guard that says so is not known
            case Replay(replayed=replayed) if replayed and within.issuperset(replayed):
                continue  # never reached: told where its own capture begins
            case Replay(replayed=replayed) if not all(r.kind == "compile" for r in replayed) or not replayed:
                message = "a graph is replayed inside a capture, which cannot be captured: run its work directly there"
                yield _problem(region, fact, message)
            case Op(name="gc.collect"):
                message = (
                    "`gc.collect()` in a capture: an old graph that dies here breaks the capture; collect before it"
                )
                yield _problem(region, fact, message)
            case Op(name=name, receiver=container) if name.endswith((".clear", ".pop", ".popitem")):
                if queries.held_graphs(container) or queries.held_graphs(fact.result):
                    yield _problem(region, fact, "drops an old graph inside a capture, which breaks the capture")
            case Bind(value=value) if fact.how != "for" and any(g is not region.graph for g in _let_go(fact)):
                if not queries.held_graphs(value) or fact.how == "=":
                    text = f"`{fact.text}` lets go of an old graph" if fact.text else "lets go of an old graph"
                    yield _problem(region, fact, f"{text} inside a capture, which breaks the capture")


def _let_go(bind: Bind) -> list[Instance]:
    """The graphs that a place held before it was bound anew. Another name for an object lets go of nothing in it."""
    old = bind.old
    objects = bind.place.kind != "local"
    return [
        g
        for o in (options(old) if old is not None else ())
        if objects or not isinstance(o, Instance) or o in queries.graphs(o)
        for g in queries.held_graphs(o)
    ]


def captured_twice(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    mine = queries.graphs(region.graph)
    if len(mine) != 1:
        return
    first: Region | None = None
    for fact in region.before:
        if isinstance(fact, CaptureBegin) and mine[0] in queries.graphs(fact.begun.graph):
            # Where it is not known whether the second capture is made, a counter usually sees to it that it is not.
            earlier = fact.order < begin.order and (fact.maybe or not begin.maybe)
            apart = earlier and (queries.exclusive(region, fact, begin) or queries.in_one_round(region, fact, begin))
            if earlier and not apart and not one_for_many(region, fact, begin):
                first = fact.begun
        elif queries.resets(fact, mine):
            first = None
    if first is not None:
        message = (
            "captures into a graph object that holds a graph already: make a new one for each capture, or `reset()` it"
        )
        notes = (Note(first.at, "first captured here"), *region.way(begin))
        yield Problem(region.at, message, notes[:5], function=region.function)


def one_for_many(region: Region, first: CaptureBegin, second: CaptureBegin) -> bool:
    """True if the two are rounds of a loop over holders of graphs: of many, one may stand for several."""
    mine = queries.graphs(region.graph)
    for loop in region.before:
        depth = len(loop.loops)
        if (
            isinstance(loop, Iterate)
            and loop.order < first.order
            and min(len(first.loops), len(second.loops)) > depth
            and first.loops[depth][0] == second.loops[depth][0]
            and queries.inside(second, loop)
        ):
            holders = {id(part) for part in parts(loop.value) if mine[0] in queries.held_graphs(part)}
            if len(holders) == 1:
                return True
    return False


def never_run(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    """The call that captures returns as if the work were done; only later calls replay it."""
    end = next((f for f in region.life if isinstance(f, CaptureEnd) and f.ended is region), None)
    if end is None or region.kind == "graphed-callables":
        return
    rest = list(queries.rest_of_call(region, end))
    if any(isinstance(f, Replay) and region in f.replayed for f in rest):
        return
    depth = len(begin.chain)
    replays = [f for f in region.after if isinstance(f, Replay) and region in f.replayed]
    own = [f for f in replays if f.function == begin.function and len(f.chain) == depth]
    if not own:
        return
    later = Note(own[0].at, "later calls replay here")
    read = unfilled(region, begin, rest) or handed_out(region, begin, rest, own[0])
    if read is not None:
        message = (
            "the graph's output is used before any replay: a capture runs nothing, so this call gets whatever lies in "
            "that memory; replay after the capture, too"
        )
        yield Problem(read.at, message, (Note(region.at, "captured here"), later), function=read.function)
        return
    work = {f.name for f in region.captured if isinstance(f, (Enter, Op))}
    done = {f.name for f in queries.start_of_call(region, begin) if isinstance(f, (Enter, Op)) and f.region is None}
    if region.writes and not work & done:
        message = (
            "the call that captures does not replay: a capture runs nothing, so the work of the first call is lost"
        )
        yield Problem(region.at, message, (later,), function=region.function)


def unfilled(region: Region, begin: CaptureBegin, rest: list[Fact]) -> Fact | None:
    """Where the call that captured takes an output of the graph, which no replay has filled, to compute from it."""
    taken: Fact | None = None
    for fact in rest:
        if isinstance(fact, Bind) and fact.function == begin.function and queries.static_outputs(region, fact.value, 1):
            taken = taken or fact
        used = fact.source if isinstance(fact, Write) else fact.value if isinstance(fact, HostRead) else None
        if isinstance(fact, (Op, Operator)) and computes(region, fact):
            used = next((v for v in queries.operands(fact) if queries.static_outputs(region, v, 1)), None)
        if used is not None and queries.static_outputs(region, used, 1):
            return taken or fact
    return None


def handed_out(region: Region, begin: CaptureBegin, rest: list[Fact], replay: Replay) -> Fact | None:
    """Where the call that captured returns what later calls return after their replay."""

    def given(facts: Iterable[Fact]) -> Iterator[Fact]:
        for fact in facts:
            if not isinstance(fact, Return) or len(fact.chain) != len(begin.chain):
                continue
            if queries.static_outputs(region, fact.value, 1) and not queries.held_graphs(fact.value):
                yield fact

    later = {fact.at for fact in given(queries.rest_of_call(region, replay))}
    return next((fact for fact in given(rest) if fact.at in later), None)


def computes(region: Region, fact: Op | Operator) -> bool:
    """True if the result is new memory, filled from what the operands hold."""
    made = queries.storages(fact.result, 1)
    return (
        bool(made)
        and not any(queries.static_outputs(region, t) for t in tensors(fact.result or Unknown(), 1))
        and (isinstance(fact, Operator) or not fact.name.endswith(queries.SHAPE_ONLY))
    )


def replayed_too_early(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    mine = queries.graphs(region.graph)
    for fact in region.before:
        if (
            isinstance(fact, CaptureBegin)
            and any(g in mine for g in queries.graphs(fact.begun.graph))
            and fact is not begin
        ):
            return
        if isinstance(fact, Replay) and not fact.replayed and fact.graph in mine and (begin.maybe or not fact.maybe):
            message = "replays a graph that was not captured yet, which raises"
            yield Problem(fact.at, message, (Note(region.at, "captured here, later"),), function=fact.function)


def replayed_after_reset(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    gone: Fact | None = None
    mine = queries.graphs(region.graph)
    for fact in region.after:
        if (
            isinstance(fact, Op)
            and fact.name.endswith(".reset")
            and fact.receiver in mine
            and (begin.maybe or not fact.maybe)
        ):
            gone = fact
        elif isinstance(fact, CaptureBegin) and any(g in mine for g in queries.graphs(fact.begun.graph)):
            return
        elif isinstance(fact, Replay) and gone is not None and all(g in mine for g in queries.graphs(fact.graph)):
            if queries.graphs(fact.graph) and (not gone.maybe or queries.inside(fact, gone)):
                message = "replays a graph after its `reset()`, which raises: capture it again first"
                yield Problem(
                    fact.at, message, (Note(gone.at, "reset here"), *region.way(fact)), function=fact.function
                )
            return


def left_open(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    end = next((f for f in region.life if isinstance(f, CaptureEnd) and f.ended is region), None)
    if end is not None and end.ensured:
        return
    never_began = [*refusals(region)]
    for fact in region.captured:
        if any(first <= fact.order <= last for first, last in never_began):
            continue
        leaves = isinstance(fact, Return) or (isinstance(fact, Raises) and not fact.handler)
        if leaves and len(fact.chain) == len(begin.chain) and ((fact.maybe and not begin.maybe) or end is None):
            message = "`capture_begin()` without `capture_end()` on a path that leaves here: the capture stays open"
            yield Problem(region.at, message, (Note(fact.at, "left here"),), function=region.function)
            return


def streams(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    block = queries.stream_block(begin)
    end = next((f for f in region.life if isinstance(f, CaptureEnd) and f.ended is region), None)
    same = end is not None and queries.stream_of(queries.stream_block(end)) is queries.stream_of(block)
    if block is not None and end is not None and block not in end.contexts and not same:
        message = "`capture_end()` outside the stream block that the capture began in: it must end on the same stream"
        called = [Note(frame.at, "called here") for frame in end.chain[-1:]]
        yield Problem(end.at, message, (Note(region.at, "captured here"), *called), function=end.function)
    own_stream = any(isinstance(f, Op) and f.name.endswith(".set_stream") for f in region.before)
    if block is None and not own_stream and begin.complete:
        message = (
            "`capture_begin()` on the default stream, which cannot be captured: open a side-stream block around it"
        )
        yield Problem(region.at, message, function=region.function)


def graphed_callables(region: Region, begin: CaptureBegin) -> Iterator[Problem]:
    function = region.graph.attrs.get("$function") if isinstance(region.graph, Instance) else None
    for fact in region.before:
        if (
            isinstance(fact, Op)
            and fact.name.rsplit(".", 1)[-1] in HOOKS
            and fact.receiver is function
            and function is not None
        ):
            message = "`make_graphed_callables` refuses modules with hooks: register them on what it returns"
            yield Problem(region.at, message, (Note(fact.at, "hook registered here"),), function=region.function)
            break
    samples = region.options.get("sample_args", Unknown())
    for sample in samples.items if isinstance(samples, Sequence) else ():
        if isinstance(sample, (Const, Instance)) and not isinstance(sample, Tensor):
            message = "`make_graphed_callables` takes tensors only as sample arguments"
            yield Problem(region.at, message, function=region.function)
            break
    for fact in region.after:
        if (
            isinstance(fact, Op)
            and fact.name == "graphed-callable.call"
            and fact.receiver is region.graph
            and fact.kwargs
        ):
            names = ", ".join(f"`{n}`" for n in fact.kwargs if n != "*")
            if names:
                message = f"a graphed callable takes positional tensors only: the keyword {names} is refused"
                yield Problem(fact.at, message, (Note(region.at, "graphed here"),), function=fact.function)


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    return Problem(fact.at, message, region.way(fact), function=fact.function)
