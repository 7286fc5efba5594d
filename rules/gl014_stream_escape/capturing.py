"""Streams inside the capture: forks, joins, events, and what is handed over to work that has begun outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphlint import cuda_streams, other_threads, places, queries
from graphlint.fact import Bind, CaptureEnd, Context, Fact, Op, Operator, Unfollowed, Write
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.value import Instance, options


def handed_over(region: Region) -> Iterator[Problem]:
    """Captured work that another thread does, on a stream of its own."""
    for fact in region.captured:
        if not isinstance(fact, Op) or not (other_threads.starts(fact) or fact.name in other_threads.AWAITED):
            continue
        if other_threads.uses_cuda(region, fact):
            message = (
                "work of another thread is not captured: the capturing stream is current in this thread only; do "
                "the work here"
            )
            yield _problem(region, fact, message)


@dataclass(slots=True)
class _Streams:
    """The streams of one capture: which take part in it, and whose latest work is known to which."""

    main: int
    forked: set[int] = field(default_factory=set)
    known: dict[int, set[int]] = field(default_factory=dict)
    """Stream -> streams whose work so far it waits for."""
    busy: dict[int, Fact] = field(default_factory=dict)
    """Stream -> the block that last gave it work."""
    events: dict[int, tuple[int, set[int]]] = field(default_factory=dict)
    """Event -> the stream that it was recorded on in this capture, with what that stream knew then."""

    def work(self, stream: int, fact: Fact) -> None:
        self.busy[stream] = fact
        for others in self.known.values():
            others.discard(stream)

    def wait(self, waiter: int, stream: int, knows: set[int]) -> None:
        self.forked.add(waiter)
        self.known.setdefault(waiter, set()).update({stream}, knows)


def captured_streams(region: Region) -> Iterator[Problem]:
    begin = places.begins(region)
    streams: _Streams | None = None
    recorded_before = {
        e
        for f in region.before
        if isinstance(f, Op) and f.region is None and (e := cuda_streams.recorded(f)) is not None
    }
    escaped: dict[int, Fact] = {}
    for fact in region.life:
        if fact.region is not region or fact is begin:
            continue
        if streams is None:
            current = _current(region, fact)
            streams = _Streams(current, {current})
        if _is_work(fact):
            block = _block(begin, fact)
            stream = cuda_streams.stream_of(block) if block is not None else None
            if block is None or stream is None or stream.id == streams.main:
                continue
            if stream.id in streams.forked:
                streams.work(stream.id, block)
            elif stream.id not in escaped:
                escaped[stream.id] = block
                yield _escape(region, block)
        elif isinstance(fact, Op):
            yield from _synchronised(region, fact, streams, recorded_before, escaped)
    if streams is None:
        return
    joined = streams.known.get(streams.main, set())
    for stream_id, last in streams.busy.items():
        if stream_id not in joined and not last.maybe:
            message = (
                "forks work onto this stream and nothing joins it: the end of the capture fails with unjoined work"
            )
            yield _problem(region, last, message)


def _is_work(fact: Fact) -> bool:
    """True if `fact` gives the current stream something to do."""
    if isinstance(fact, Op):
        return fact.name.startswith(("Tensor.", "torch.", "kernel.")) and not fact.name.startswith(
            ("torch.cuda.", "torch.Stream", "torch.Event", "torch.xpu.", "torch.accelerator.")
        )
    return isinstance(fact, (Operator, Write, Unfollowed))


def _block(begin: Fact | None, fact: Fact) -> Context | None:
    """The innermost stream block that was opened inside the capture."""
    outside = len(begin.contexts) if begin is not None else 0
    inner = [c for c in fact.contexts[outside:] if c.name in queries.STREAM_BLOCKS]
    return inner[-1] if inner else None


def _escape(region: Region, fact: Context) -> Problem:
    message = (
        "work on this stream is not part of the graph: the stream did not wait for the capturing one first "
        "(`side.wait_stream(torch.cuda.current_stream())`)"
    )
    return _problem(region, fact, message)


def _synchronised(
    region: Region, fact: Op, streams: _Streams, before: set[int], escaped: dict[int, Fact]
) -> Iterator[Problem]:
    last = fact.name.rpartition(".")[2]
    waiter = cuda_streams.identity(fact.receiver, cuda_streams.STREAMS)
    if last == "wait_stream" and waiter is not None:
        stream = cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS)
        if stream is None:
            streams.forked.add(waiter)
        elif stream in streams.forked:
            streams.wait(waiter, stream, streams.known.get(stream, set()))
        elif waiter in streams.forked and stream not in escaped and not fact.maybe:
            yield _problem(region, fact, _outside("another stream"))
        return
    event = cuda_streams.recorded(fact)
    if event is not None:
        on = (
            cuda_streams.identity(fact.receiver, cuda_streams.STREAMS)
            or cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS)
            or _current(region, fact)
        )
        if on in streams.forked:
            streams.events[event] = (on, set(streams.known.get(on, set())))
            before.discard(event)
        return
    waited = None
    if last == "wait_event" and waiter is not None:
        waited = cuda_streams.event_of(fact.argument(0, "event"))
    elif last == "wait" and cuda_streams.identity(fact.receiver, cuda_streams.EVENTS) is not None:
        waited, waiter = (
            cuda_streams.event_of(fact.receiver),
            cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS) or _current(region, fact),
        )
    if waited is None or waiter is None:
        return
    if waited.id in streams.events:
        on, knows = streams.events[waited.id]
        streams.wait(waiter, on, knows)
    elif waited.id in before and waiter in streams.forked and not cuda_streams.is_external(waited) and not fact.maybe:
        yield _problem(region, fact, _outside("an event"))


def _outside(what: str) -> str:
    return (
        f"waits in the capture for work of {what} from before it, which cannot be captured: wait before the capture "
        "begins"
    )


def _current(region: Region, fact: Fact) -> int:
    """The id of the stream that is current at a captured fact; 0 for the capture's own, unless it is known."""
    begin = places.begins(region)
    inner = fact.contexts[len(begin.contexts) :] if begin is not None else fact.contexts
    for context in reversed(inner):
        if (
            context is not fact
            and context.name in queries.STREAM_BLOCKS
            and (stream := cuda_streams.stream_of(context)) is not None
        ):
            return stream.id
    return own_stream(region)


def own_stream(region: Region) -> int:
    """The capturing stream: given, or what `current_stream()` handed out in the capture."""
    for stream in (region.stream, region.own_stream):
        if (known := cuda_streams.identity(stream, cuda_streams.STREAMS)) is not None:
            return known
    if region.kind != "graph":
        begin = places.begins(region)
        block = queries.stream_block(begin) if begin is not None else None
        stream = cuda_streams.stream_of(block) if block is not None else None
        if stream is not None:
            return stream.id
    own = _handed_out(region)
    return own if own is not None else 0


def _handed_out(region: Region) -> int | None:
    """`torch.cuda.current_stream()` in the capture gives a stream that nobody made."""
    for fact in region.captured:
        if isinstance(fact, Op):
            for value in (fact.receiver, *fact.args, *fact.kwargs.values()):
                for option in options(value) if value is not None else ():
                    if (
                        isinstance(option, Instance)
                        and option.external in cuda_streams.STREAMS
                        and option.made is None
                        and not _is_default(region, option)
                    ):
                        return option.id
    return None


def _is_default(region: Region, stream: Instance) -> bool:
    """True if eager code before the capture sees the same nameless stream: the default one."""
    for fact in region.before:
        if isinstance(fact, Op) and fact.region is None and fact.receiver is stream:
            return True
        if isinstance(fact, Op) and fact.region is None and any(a is stream for a in fact.args):
            return True
        if isinstance(fact, Bind) and fact.region is None and fact.value is stream:
            return True
    return False


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    assert not isinstance(fact, CaptureEnd)
    return Problem(fact.at, message, region.way(fact), function=fact.function)
