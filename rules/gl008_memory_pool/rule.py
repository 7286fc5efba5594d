"""Graphs that share memory and overwrite each other, and graphs that pile up."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from graphlint import queries
from graphlint.fact import (
    Bind,
    Branch,
    CaptureBegin,
    Fact,
    HostRead,
    Index,
    Iterate,
    Keep,
    Op,
    Operator,
    Replay,
    Return,
    Write,
)
from graphlint.finding import Note, Problem, Severity
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Const, Host, Instance, Sequence, Storage, Tensor, Union, Unknown, Value, options, origins

UNBOUNDED = (
    "one graph for every size that comes along, kept for ever: round sizes up to a few buckets, or drop old graphs"
)
#: Ways to put a graph into a table or list.
INTO = ("setitem", "append", "extend", "add")
HANDLE = "torch.cuda.graph_pool_handle"

#: Operations that bring a tensor to the size of a bucket.
PADS = ("pad", "constant_pad_nd", "pad_sequence")
MAKERS = ("zeros", "empty", "full", "ones", "new_zeros", "new_empty", "new_full")


@rule("GL008", "memory-pool", "warning", "graphs that share memory overwrite each other, or graphs pile up")
def check(region: Region) -> Iterator[Problem]:
    if region.kind == "compile":
        return
    yield from empty_cache(region)
    if region.kind == "graphed-callables":
        return
    others = [
        f.begun
        for f in region.life
        if isinstance(f, CaptureBegin) and f.begun is not region and f.begun.kind != "compile"
    ]
    shared = [o for o in others if o.end < region.begin and pool_of(o) is not None and pool_of(o) is pool_of(region)]
    yield from replay_order(region, shared)
    yield from retired(region, shared)
    yield from at_once(region, shared)
    yield from small_to_large(region)
    yield from pool_for_each(region, others)
    yield from piles_up(region, others)


def _problem(
    at: Location, message: str, notes: tuple[Note, ...], function: str, severity: Severity | None = None
) -> Problem:
    return Problem(at, message, notes[:5], function=function, severity=severity)


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


def empty_cache(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, Op) and fact.name in ("torch.cuda.empty_cache", "torch.accelerator.empty_cache"):
            message = (
                "`empty_cache()` in a capture gives nothing back (torch 2.8 and later): free and empty before "
                "the capture"
            )
            yield _problem(fact.at, message, region.way(fact), fact.function)


# --------------------------------------------------------------------------------------- graphs that share a pool


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
                yield _problem(region.at, message, notes, region.function, "error")
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
        ):
            gone[fact.receiver.id] = fact
    users = [g for o in shared for g in queries.graphs(o.graph)]
    if users and all(g.id in gone for g in users):
        message = (
            "captures into a pool whose graphs were all reset: the pool is retired, and the capture fails "
            "while any of its "
            "tensors is alive; take a new handle with the new graphs"
        )
        yield _problem(
            region.at, message, (Note(gone[users[-1].id].at, "its last graph is reset here"),), region.function, "error"
        )


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
                    yield _problem(region.at, message, notes, region.function, "error")
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


# ------------------------------------------------------------------------------------------- graphs that pile up


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
    if found is None or region.pool is None or found[1].loops[-1][1] != 0:
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
        yield _problem(loop.at, message, region.way(found[1]), loop.function)


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


def kept_in(region: Region) -> Keep | None:
    """Where the graph is put into a table or list."""
    mine = queries.graphs(region.graph)
    for fact in region.after:
        if not isinstance(fact, Keep) or fact.region is not None or fact.how not in INTO:
            continue
        if any(g in mine for g in queries.held_graphs(fact.value)):
            return fact
    return None


def pool_for_each(region: Region, others: list[Region]) -> Iterator[Problem]:
    """Graphs for several sizes, each with a pool of its own, whose outputs are used up before the next replay."""
    keep = kept_in(region)
    if region.pool is not None or keep is None or region.kind not in ("graph", "begin-end"):
        return
    alike = [o for o in others if o.at == region.at and o.pool is None and kept_like(o, keep)]
    if not alike or any(o.begin < region.begin for o in alike) or keep.how != "setitem":
        return
    keys = {_key(k.key) for o in (region, *alike) if (k := kept_in(o)) is not None}
    handed_on = any("$pool" in g.attrs for o in (region, *alike) for g in queries.graphs(o.graph))
    if len(keys) < 2 or handed_on:
        return
    mine = {s for o in (region, *alike) for s in o.outputs}
    for fact in region.after:
        handed = (
            isinstance(fact, Return)
            and fact.region is None
            and fact.value is not None
            and not queries.held_graphs(fact.value)
        )
        if (
            handed
            and isinstance(fact, Return)
            and mine & queries.storages(fact.value)
            and any(isinstance(f, Replay) and f.order < fact.order for f in region.after)
        ):
            return
    message = (
        "each of these graphs gets a memory pool of its own, though one runs at a time: pass one `pool=` to all, "
        "large to small"
    )
    yield _problem(region.at, message, (Note(keep.at, "kept here, one for each key"),), region.function)


def kept_like(region: Region, keep: Keep) -> bool:
    other = kept_in(region)
    return other is not None and any(o is c for o in options(other.container) for c in options(keep.container))


def piles_up(region: Region, others: list[Region]) -> Iterator[Problem]:
    keep = kept_in(region)
    if keep is None:
        return
    earlier = [o for o in others if o.at == region.at and o.begin < region.begin and kept_like(o, keep)]
    exact = keep.how == "setitem" and _exact_size(region, keep.key, keep.function)
    if exact and lazily(region) and not bounded(region, keep):
        yield _problem(keep.at, UNBOUNDED, (Note(region.at, "captured here"),), keep.function)
    if not earlier or exact:
        return
    first = min(earlier, key=lambda r: r.begin)
    if keep.how == "append" and same_work(region, first) and not given_up(region, earlier):
        message = (
            "a new graph is captured while the old ones are still held: memory grows with every capture; "
            "`reset()` and drop the old one first"
        )
        yield _problem(keep.at, message, (Note(region.at, "captured here"),), keep.function)
    elif keep.how == "setitem" and len(earlier) == 2 and lazily(region) and not bounded(region, keep):
        keys = {_key(k.key) for o in (region, *earlier) if (k := kept_in(o)) is not None}
        if len(keys) == 3 and None not in keys:
            yield _problem(keep.at, UNBOUNDED, (Note(region.at, "captured here"),), keep.function)


def _exact_size(region: Region, key: Value | None, function: str) -> bool:
    """True if the key is a size, or has one, of what the caller gave: not of what was padded to a bucket."""
    if isinstance(key, Sequence):
        return any(_exact_size(region, i, function) for i in key.items)
    if not isinstance(key, Host) or key.source != "shape" or key.symbol is None:
        return False
    padded = {
        s.id
        for f in region.before
        if isinstance(f, Op) and f.name.rpartition(".")[2] in (*PADS, *(MAKERS if f.function == function else ()))
        for s in queries.storages(f.result, 1)
    }
    return not any(re.match(rf"n{number}\b", key.symbol) for number in padded)


def same_work(region: Region, other: Region) -> bool:
    """True if both captures read the same memory through the same slices: nothing but time lies between them."""
    if not region.inputs or set(region.inputs) != set(other.inputs):
        return False
    return _slices(region) == _slices(other)


def _slices(region: Region) -> list[object]:
    found: list[object] = []
    for fact in region.captured:
        if isinstance(fact, Index):
            shape = fact.result.shape if hasattr(fact.result, "shape") else None
            found.append((fact.at, shape))
    return found


def given_up(region: Region, earlier: list[Region]) -> bool:
    mine = [g for o in earlier for g in queries.graphs(o.graph)]
    for fact in region.before:
        if isinstance(fact, Op) and fact.order > earlier[0].end:
            if fact.name.endswith(".reset") and fact.receiver in mine:
                return True
            if fact.name.rpartition(".")[2] in ("clear", "pop", "popleft", "popitem"):
                return True
    return False


def lazily(region: Region) -> bool:
    """True if the capture is made when a key is missing, inside a loop that goes on with other sizes."""
    begin = queries.begin_fact(region)
    if begin is None or not begin.complete:
        return False
    missing = next((f for f in queries.start_of_call(region, begin) if _tests_key(f, begin)), None)
    if missing is None:
        missing = next((f for f in reversed(list(region.before)) if _tests_key(f, begin)), None)
    if missing is None:
        return False
    around = [
        f
        for f in region.before
        if isinstance(f, Iterate) and len(f.loops) < len(missing.loops) and missing.loops[: len(f.loops)] == f.loops
    ]
    return any(not _written_out(f.value) for f in around if queries.inside(missing, f))


def _tests_key(fact: Fact, begin: Fact) -> bool:
    """True for the branch that the capture is made in where a key is missing, or where it left early if it was not."""
    if not isinstance(fact, Branch) or not (" in " in fact.text or "None" in fact.text):
        return False
    return queries.inside(begin, fact) and (queries.covers(fact, begin) or (not fact.taken and fact.body is None))


def _written_out(value: Value) -> bool:
    return all(isinstance(o, Sequence) and o.kind != "range" and o.rest is None for o in options(value))


def bounded(region: Region, keep: Keep) -> bool:
    """True if something looks at how many graphs there are, or lets old ones go."""
    for fact in region.life:
        if isinstance(fact, Branch) and "len(" in fact.text and fact.function == keep.function:
            return True
        if isinstance(fact, Op) and fact.name.rpartition(".")[2] in ("pop", "popitem", "clear", "move_to_end"):
            return True
        if isinstance(fact, Bind) and fact.how == "del" and fact.place.kind == "item":
            return True
    return False


def _key(value: Value | None) -> object:
    if isinstance(value, Const):
        return repr(value.value)
    if isinstance(value, Sequence):
        return tuple(_key(i) for i in value.items)
    return id(value) if value is not None else None
