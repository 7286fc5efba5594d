"""Graphs of one pool.

Replayed out of order, or at once, they overwrite each other; captured from small to large they share nothing; a pool
that was retired takes no more of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import Bind, Branch, CaptureBegin, Fact, HostRead, Index, Iterate, Op, Operator, Replay, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Const, Instance, Sequence, Storage, Tensor, Union, Unknown, Value, options, origins

HANDLE = "torch.cuda.graph_pool_handle"


def pool_of(region: Region) -> Instance | None:
    """The pool that the capture was given, by identity; a graph's own pool is that of `graph.pool()`."""
    for option in options(region.pool) if region.pool is not None else ():
        if isinstance(option, Instance) and option.external == HANDLE:
            return option
    for graph in queries.graphs(region.graph):
        own = graph.attrs.get("$pool")
        if isinstance(own, Instance):
            return own
    return None


def reads(fact: Fact) -> set[Storage]:
    values: list[Value] = []
    if isinstance(fact, (Op, Operator, Write)):
        values = queries.operands(fact)
    elif isinstance(fact, HostRead):
        values = [fact.value]
    # One of several outputs says nothing: which graph ran last goes with it.
    flat = [i for v in values for i in (v.items if isinstance(v, Sequence) else [v])]
    return {v.storage for v in flat if isinstance(v, Tensor)}


def replay_order(region: Region, shared: list[Region]) -> Iterator[Problem]:
    """An output read after a graph captured earlier in its pool was replayed."""
    mine = set(region.outputs)
    for earlier in shared:
        ran: Replay | None = None
        between: Replay | None = None
        for fact in region.after:
            if isinstance(fact, Replay):
                if region in fact.replayed and len(fact.replayed) == 1:
                    ran, between = fact, None
                elif earlier in fact.replayed and len(fact.replayed) == 1 and ran is not None:
                    between = fact
            elif between is not None and fact.region is None and reads(fact) & mine:
                message = (
                    "graphs share this pool but are not replayed in the order of their capture: the earlier "
                    "one overwrites "
                    "the output of this one before it is read; use it first, copy it, or give each graph its own pool"
                )
                notes = (
                    Note(earlier.at, "captured earlier in the same pool"),
                    Note(between.at, "replayed in between"),
                    Note(fact.at, "read here"),
                )
                yield Problem(region.at, message, notes, function=region.function, severity="error")
                return


def retired(region: Region, shared: list[Region]) -> Iterator[Problem]:
    """A pool handle that outlived the graphs that owned the pool."""
    begin = queries.begin_fact(region)
    if not shared or begin is None:
        return
    gone: dict[int, Fact] = {}
    for fact in region.before:
        if (
            isinstance(fact, Op)
            and fact.name.endswith(".reset")
            and isinstance(fact.receiver, Instance)
            and (begin.maybe or not fact.maybe)
            and not (fact.maybe and evicted(region, fact, fact.receiver))
        ):
            gone[fact.receiver.id] = fact
    users = [g for o in shared for g in queries.graphs(o.graph)]
    if users and all(g.id in gone for g in users):
        message = (
            "captures into a pool whose graphs were all reset: the pool is retired, and the capture fails "
            "while any of its "
            "tensors is alive; take a new handle with the new graphs"
        )
        yield Problem(
            region.at,
            message,
            (Note(gone[users[-1].id].at, "its last graph is reset here"),),
            function=region.function,
            severity="error",
        )


def evicted(region: Region, reset: Fact, graph: Instance) -> bool:
    """True if a full table lets go of one of its graphs here: the others stay.

    What is taken out may be reset further in, by a method of what holds the graph, or by who is handed it."""
    for past in reversed(region.life[: region.position(reset.order)]):
        if isinstance(past, CaptureBegin):
            return False
        if isinstance(past, Bind) and past.how == "pop" and graph in queries.held_graphs(past.old):
            return not _to_the_last(region, past)
    return False


def _to_the_last(region: Region, taken: Bind) -> bool:
    """True if entries are taken out for as long as there are any: `while table: ...`."""
    for past in reversed(region.life[: region.position(taken.order)]):
        if len(past.loops) < len(taken.loops) or not taken.loops:
            return False
        if not isinstance(past, Branch) or not past.taken or past.loops != taken.loops:
            continue
        if any(o is taken.owner for o in options(past.value)):
            return True
    return False


def at_once(region: Region, shared: list[Region]) -> Iterator[Problem]:
    """Two graphs of one pool replayed on different streams, the later one not behind the earlier."""
    running: list[tuple[Replay, set[object]]] = []
    for fact in region.after:
        if isinstance(fact, Op):
            if ordered(fact, running):
                running = []
        elif (
            isinstance(fact, Replay)
            and len(fact.replayed) == 1
            and (region in fact.replayed or fact.replayed[0] in shared)
        ):
            stream = stream_key(queries.stream_of(queries.stream_block(fact)))
            for past, behind in running:
                concerned = past.replayed != fact.replayed and region in (*past.replayed, *fact.replayed)
                if concerned and stream not in behind:
                    message = (
                        "graphs that share this pool are replayed on two streams at once: they write to the same memory"
                    )
                    notes = (Note(past.at, "replayed here"), Note(fact.at, "and here, on another stream"))
                    yield Problem(region.at, message, notes, function=region.function, severity="error")
                    return
            running = [(p, b) for p, b in running if p.replayed != fact.replayed] + [(fact, {stream})]


def stream_key(value: Value | None) -> object:
    """The identity of a stream; None for the default stream."""
    return value if isinstance(value, Instance) and value.made is not None else None


def ordered(fact: Op, running: list[tuple[Replay, set[object]]]) -> bool:
    """Notes which streams and events come after the replays that are `running`; True if all do, or it is not known."""
    what = fact.name.rpartition(".")[2]
    if what == "synchronize":
        mine = fact.receiver is None or any(stream_key(fact.receiver) in behind for _, behind in running)
        return mine or not isinstance(fact.receiver, Instance)
    later: Value | None
    earlier: Value | None
    if what in ("wait_stream", "wait_event") and fact.args:
        later, earlier = fact.receiver, fact.args[0]
    elif what == "record_event":
        later, earlier = (fact.args[0] if fact.args else fact.result), fact.receiver
    elif what == "record" and fact.args:
        later, earlier = fact.receiver, fact.args[0]
    elif what == "record":
        later, earlier = fact.receiver, queries.stream_of(queries.stream_block(fact))
    elif what == "wait":
        later, earlier = (fact.args[0] if fact.args else queries.stream_of(queries.stream_block(fact))), fact.receiver
    else:
        return False
    if isinstance(later, (Unknown, Union)) or isinstance(earlier, (Unknown, Union)):
        return True
    for _, behind in running:
        if stream_key(earlier) in behind:
            behind.add(stream_key(later))
    return False


def loop_of(region: Region) -> tuple[Iterate, CaptureBegin] | None:
    """The innermost loop that the capture lies in, directly in its function or in a caller."""
    begin = queries.begin_fact(region)
    if begin is None or not begin.loops or begin.loops[0][0] < 0:
        return None
    for fact in reversed([f for f in region.before if isinstance(f, Iterate)]):
        depth = len(fact.loops)
        if depth < len(begin.loops) and begin.loops[:depth] == fact.loops and queries.inside(begin, fact):
            return fact, begin
    return None


def small_to_large(region: Region) -> Iterator[Problem]:
    found = loop_of(region)
    if found is None or found[1].loops[-1][1] != 0 or (region.pool is None and pool_of(region) is None):
        return
    loop = found[0]
    if any(
        isinstance(f, Bind)
        and f.value is not None
        and _is_pool(region, f.value)
        and len(f.loops) > len(loop.loops)
        and f.order > loop.order
        for f in region.before
    ):
        return
    if ascending(loop.value) and sized(region, loop):
        message = (
            "graphs that share a pool are captured from small to large: none fits into what an earlier one gave "
            "back; go from large to small"
        )
        yield Problem(loop.at, message, region.way(found[1])[:5], function=loop.function)


def _is_pool(region: Region, value: Value) -> bool:
    pool = pool_of(region)
    return pool is not None and any(o is pool for o in options(value))


def ascending(value: Value) -> bool:
    for option in options(value):
        if not isinstance(option, Sequence):
            return False
        numbers = [i.value for i in option.items if isinstance(i, Const) and isinstance(i.value, int)]
        if option.kind == "range":
            return len(numbers) == len(option.items) and (len(numbers) < 3 or numbers[2] > 0) and len(numbers) > 0
        if len(numbers) < 2 or len(numbers) != len(option.items) or any(a >= b for a, b in itertools.pairwise(numbers)):
            return False
    return True


def sized(region: Region, loop: Iterate) -> bool:
    """True if what the loop runs over is the size of what is captured: the bound of a slice, or a dim."""
    names = {
        f.place
        for f in region.before
        if isinstance(f, Bind) and f.order > loop.order and f.at.path == loop.at.path and f.at.line == loop.at.line
    }
    for fact in region.captured:
        if isinstance(fact, Index):
            parts = (
                fact.index.items if isinstance(fact.index, Sequence) and fact.index.kind == "tuple" else [fact.index]
            )
            for part in parts:
                if (
                    isinstance(part, Sequence)
                    and part.kind == "slice"
                    and any(origins(p) & names for p in part.items[:2])
                ):
                    return True
    return False
