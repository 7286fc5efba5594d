"""Faults that show only when several events are put together: streams, warm-up, failed captures, pools, shapes."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from graphlint.runtime import events, frames
from graphlint.runtime.frames import Site
from graphlint.runtime.judge.observation import Observation
from graphlint.runtime.syntax import statement_at

#: cudagraph trees warn after this many recordings of one function.
MANY_SHAPES = 8
#: More graphs of one line than buckets need.
MANY_GRAPHS = 24


def judge(run: list[events.Event]) -> Iterator[Observation]:
    captures = {e.graph: e for e in run if isinstance(e, events.CaptureBegin)}
    yield from _streams(run)
    yield from _warm_up(run, captures)
    yield from _threads(run, captures)
    yield from _failed(run)
    yield from _pools(run, captures)
    yield from _shapes(run)


def _streams(run: list[events.Event]) -> Iterator[Observation]:
    entered: dict[tuple[int, int], events.Note] = {}
    for event in run:
        if isinstance(event, events.Note) and event.name == "stream-entered" and event.graph is not None:
            entered[event.graph, int(str(event.data["stream"]))] = event
        elif isinstance(event, events.Note) and event.name == "unjoined" and event.graph is not None:
            streams = event.data["streams"]
            assert isinstance(streams, list)
            for stream in streams:
                note = entered.get((event.graph, stream))
                at = frames.in_user_code(note.at if note is not None else event.at)
                if at is not None:
                    yield Observation(
                        "stream-escape",
                        at,
                        "the capture ended while work on this stream was not joined",
                        event.at,
                        event.graph,
                    )
        elif isinstance(event, events.Note) and event.name == "ran-outside" and event.graph is not None:
            note = entered.get((event.graph, int(str(event.data["stream"]))))
            at = frames.in_user_code(note.at if note is not None else event.at)
            if at is not None:
                yield Observation(
                    "stream-escape",
                    at,
                    "work on this stream ran once, beside the capture, and is not in the graph",
                    event.at,
                    event.graph,
                )
        elif isinstance(event, events.Refusal) and event.kind == "stream":
            spots = [n for (graph, _), n in entered.items() if graph == event.graph]
            outside = [n for n in spots if not n.data.get("member")]
            at = frames.in_user_code((outside or spots)[-1].at) if spots else frames.in_user_code(event.at)
            if at is not None:
                yield Observation("stream-escape", at, f"the capture failed: {event.text}", event.at, event.graph)
        elif isinstance(event, events.Refusal) and event.kind == "autograd" and event.how == "forward":
            made = event.made_at
            at = frames.in_user_code(made or event.at)
            if at is not None:
                yield Observation(
                    "stream-escape",
                    at,
                    "the forward ran here on the default stream, its backward in the capture",
                    made or event.at,
                    event.graph,
                )


def _warm_up(run: list[events.Event], captures: dict[int, events.CaptureBegin]) -> Iterator[Observation]:
    for event in run:
        if not isinstance(event, events.Refusal) or event.graph is None or event.graph not in captures:
            continue
        if event.kind == "first-use" or (event.kind == "autograd" and event.how == "accumulate"):
            at = frames.in_user_code(captures[event.graph].at)
            if at is not None:
                where = frames.in_user_code(event.at)
                line = f" (line {where.line})" if where is not None else ""
                yield Observation("missing-warmup", at, f"{event.text}{line}", event.at, event.graph, True)


def _threads(run: list[events.Event], captures: dict[int, events.CaptureBegin]) -> Iterator[Observation]:
    for event in run:
        if isinstance(event, events.Refusal) and event.thread and event.graph in captures:
            at = frames.in_user_code(captures[event.graph].at)
            if at is not None:
                evidence = f"another thread's call broke this capture: {event.text}"
                yield Observation("capture-thread", at, evidence, event.at, event.graph, True)


def _failed(run: list[events.Event]) -> Iterator[Observation]:
    handlers: dict[int, Site] = {}
    ended = {e.graph for e in run if isinstance(e, events.CaptureEnd)}
    for event in run:
        if isinstance(event, events.CaptureBegin) and event.graph not in ended:
            at = frames.in_user_code(event.at)
            if at is not None:
                yield Observation("capture-misuse", at, "this capture was begun and never ended", event.at, event.graph)
        elif isinstance(event, events.CaptureEnd) and (event.error or "").startswith("Capture must end"):
            at = frames.in_user_code(event.at)
            if at is not None:
                yield Observation("capture-misuse", at, event.error or "", event.at, event.graph)
    for event in run:
        if isinstance(event, events.Note) and event.name == "failure-handled" and event.graph is not None:
            site = event.data["site"]
            assert isinstance(site, Site)
            handlers[event.graph] = site
        elif isinstance(event, events.Refusal) and event.kind == "not-captured":
            number = int(event.detail or 0)
            if number in handlers:
                yield Observation(
                    "capture-misuse",
                    handlers[number],
                    "the capture failed, the error was dropped here, and the graph was replayed",
                    event.at,
                )
            else:
                at = frames.in_user_code(event.at)
                if at is not None:
                    yield Observation("capture-misuse", at, event.text, event.at)


def _pools(run: list[events.Event], captures: dict[int, events.CaptureBegin]) -> Iterator[Observation]:
    grown: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for event in run:
        if isinstance(event, events.Refusal) and event.kind == "pool":
            at = frames.in_user_code(event.at)
            if at is not None:
                yield Observation(
                    "memory-pool", at, "the pool's graphs were reset, and it still holds live memory", event.at
                )
        elif isinstance(event, events.CaptureEnd) and event.error is None and event.graph in captures:
            begin = captures[event.graph]
            if begin.pool_given:
                grown[begin.pool].append((event.graph, event.pool_bytes, event.peak))
    yield from _own_pools(run)
    for order in grown.values():
        if len(order) < 3:
            continue
        sizes = [size for _, size, _ in order]
        peaks = [peak for _, _, peak in order]
        if all(a < b for a, b in itertools.pairwise(peaks)) and sizes[-1] > 1.5 * max(peaks) and sizes[0] < sizes[-1]:
            loop = _loop(captures[order[0][0]].at)
            if loop is not None:
                yield Observation(
                    "memory-pool",
                    loop,
                    f"captured from small to large, the pool grew to {sizes[-1] >> 20} MiB; "
                    f"the largest graph needs {max(peaks) >> 20} MiB",
                    captures[order[0][0]].at,
                    memory=True,
                )


def _own_pools(run: list[events.Event]) -> Iterator[Observation]:
    """Graphs of one capture site that have a pool each; whether that is wrong depends on how they are used."""
    sites: dict[Site, list[int]] = defaultdict(list)
    sizes = {e.graph: e.pool_bytes for e in run if isinstance(e, events.CaptureEnd) and e.error is None}
    for event in run:
        if isinstance(event, events.CaptureBegin) and not event.pool_given and event.graph in sizes:
            at = frames.in_user_code(event.at)
            if at is not None:
                sites[at].append(event.graph)
    yield from _many(run, sizes)
    handles = {e.data["handle"] for e in run if isinstance(e, events.Note) and e.name == "pool-handle"}
    used = {e.pool for e in run if isinstance(e, events.CaptureBegin) and e.pool_given}
    forgotten = bool(handles) and not used
    for at, graphs in sites.items():
        if len(graphs) > 1:
            total = sum(sizes[g] for g in graphs) >> 20
            evidence = f"{len(graphs)} graphs captured here have a pool each, {total} MiB in all"
            if forgotten:
                evidence += "; a pool was made for graphs, and none was given it"
            yield Observation("memory-pool", at, evidence, (at,), graphs[0], weak=not forgotten, memory=True)


def _many(run: list[events.Event], sizes: dict[int, int]) -> Iterator[Observation]:
    """Graphs that one line captures again and again, as a cache without bounds does."""
    made: dict[Site, list[events.CaptureBegin]] = defaultdict(list)
    for event in run:
        if isinstance(event, events.CaptureBegin) and event.graph in sizes:
            at = frames.in_user_code(event.at)
            if at is not None:
                made[at].append(event)
    for at, begun in made.items():
        if len(begun) >= MANY_GRAPHS:
            evidence = f"{len(begun)} graphs were captured here in one run"
            last = begun[-1]
            yield Observation("memory-pool", at, evidence, last.at, last.graph, weak=True, memory=True)


def _loop(stack: events.Stack) -> Site | None:
    """The innermost loop around a capture, in its own function or in a caller."""
    for site in stack:
        statement = statement_at(site.path, site.line)
        if statement is not None and statement.loops:
            return Site(site.path, statement.loops[-1], site.function)
    return None


def _shapes(run: list[events.Event]) -> Iterator[Observation]:
    told = set()
    for event in run:
        if isinstance(event, events.Note) and event.name == "compiled-call":
            shapes, region = int(str(event.data["shapes"])), event.data["region"]
            at = frames.in_user_code(event.at)
            if shapes > MANY_SHAPES and at is not None and (region, at) not in told:
                told.add((region, at))
                yield Observation(
                    "compile-cudagraphs",
                    at,
                    f"{shapes} shapes were recorded for this compiled function, one graph each",
                    event.at,
                )
