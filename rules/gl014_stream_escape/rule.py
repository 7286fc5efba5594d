"""Work that leaves the capturing stream without a fork or a join, and replays that do not wait for their input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphlint import cuda_streams, other_threads, places, queries
from graphlint.fact import Bind, CaptureEnd, Context, Fact, HostRead, Index, Op, Operator, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.rule import rule
from graphlint.source import Location
from graphlint.value import Instance, Place, Storage, Tensor, options, tensors


@rule(
    "GL014",
    "stream-escape",
    "error",
    "work leaves the capturing stream unforked or unjoined, or a replay does not wait",
)
def check(region: Region) -> Iterator[Problem]:
    if region.kind not in (*places.MANUAL, "graphed-callables"):
        return
    told: set[Location] = set()
    found = [*_captured_streams(region), *_handed_over(region)]
    if region.kind in places.MANUAL:
        found += [*_not_awaited(region), *_begun_outside(region), *_warmed_too_early(region)]
    for problem in found:
        if problem.at not in told:
            told.add(problem.at)
            yield problem


def _handed_over(region: Region) -> Iterator[Problem]:
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


def _captured_streams(region: Region) -> Iterator[Problem]:
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
    return _own_stream(region)


def _own_stream(region: Region) -> int:
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


# ------------------------------------------------------------------------------------------- inputs not awaited


def _not_awaited(region: Region) -> Iterator[Problem]:
    """A static input written on another stream, with nothing that orders the replay after it."""
    lent = places.borrowed(region)
    open_: dict[int, tuple[Fact, Storage]] = {}
    events: dict[int, set[int]] = {}
    ours = set(map(id, places.replays(region)))
    for fact in region.after:
        if fact.region is not None:
            continue
        if isinstance(fact, Write):
            stream = _eager_stream(fact)
            written = queries.storages(fact.target, 1) & lent
            if written and stream is not None:
                open_[stream] = (fact, next(iter(written)))
        elif isinstance(fact, Op):
            _settle(fact, open_, events)
        elif isinstance(fact, HostRead):
            stream = _eager_stream(fact)
            if stream is not None:
                open_.pop(stream, None)
        elif isinstance(fact, Replay) and id(fact) in ours:
            here = _eager_stream(fact)
            for stream, (write, _) in list(open_.items()):
                if stream != here and not write.maybe:
                    message = (
                        "replays without waiting for the stream that fills its input: the graph may read the old data"
                    )
                    notes = (Note(region.at, "captured here"), Note(write.at, "written here on another stream"))
                    yield Problem(fact.at, message, notes, function=fact.function)
                    return


def _settle(fact: Op, open_: dict[int, tuple[Fact, Storage]], events: dict[int, set[int]]) -> None:
    """Whatever waits for a stream settles its writes."""
    last = fact.name.rpartition(".")[2]
    if last == "wait_stream":
        stream = cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS)
        if stream is None:
            open_.clear()
        else:
            open_.pop(stream, None)
    elif last == "synchronize":
        stream = cuda_streams.identity(fact.receiver, cuda_streams.STREAMS)
        event = cuda_streams.identity(fact.receiver, cuda_streams.EVENTS)
        for settled in (
            events.get(event, set()) if event is not None else {stream} if stream is not None else set(open_)
        ):
            open_.pop(settled, None)
    elif (event := cuda_streams.recorded(fact)) is not None:
        on = (
            cuda_streams.identity(fact.receiver, cuda_streams.STREAMS)
            or cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS)
            or _eager_stream(fact)
        )
        events[event] = {on} if on is not None else set()
    elif last in ("wait_event", "wait"):
        waited = (
            cuda_streams.event_of(fact.argument(0, "event"))
            if last == "wait_event"
            else cuda_streams.event_of(fact.receiver)
        )
        if waited is None:
            open_.clear()
        else:
            for settled in events.get(waited.id, set(open_)):
                open_.pop(settled, None)


def _eager_stream(fact: Fact) -> int | None:
    """The id of the side stream that is current at an eager fact; None for the default stream."""
    for context in reversed(fact.contexts):
        if context.name in queries.STREAM_BLOCKS:
            stream = cuda_streams.stream_of(context)
            return stream.id if stream is not None and stream.made is not None else None
    return None


# ---------------------------------------------------------------------------------- a warm-up that does not wait


def _warmed_too_early(region: Region) -> Iterator[Problem]:
    """A warm-up on a side stream that did not wait for the stream which made its inputs."""
    captured = {f.at for f in region.captured if isinstance(f, (Op, Operator, Unfollowed))}
    waited: set[int] = set()
    blocks: dict[int, Context] = {}
    home: dict[Storage, int] = {}
    """The side stream that memory was made on."""
    for fact in region.before:
        if fact.region is not None:
            continue
        if isinstance(fact, Op):
            last = fact.name.rpartition(".")[2]
            stream = cuda_streams.identity(fact.receiver, cuda_streams.STREAMS)
            if last == "wait":
                stream = cuda_streams.identity(fact.argument(0, "stream"), cuda_streams.STREAMS)
            if last in ("wait_stream", "wait_event", "wait") and stream is not None:
                waited.add(stream)
            elif last == "synchronize":
                return
        block = queries.stream_block(fact)
        stream_of = cuda_streams.stream_of(block) if block is not None else None
        if (
            block is None
            or stream_of is None
            or stream_of.made is None
            or not isinstance(fact, (Op, Operator, Unfollowed))
        ):
            continue
        for storage in queries.storages(queries.result(fact), 1):
            home.setdefault(storage, stream_of.id)
        read = {s for v in queries.operands(fact) for s in queries.storages(v, 1)}
        if read and all(home.get(s) == stream_of.id for s in read):
            continue
        if stream_of.id not in waited and fact.at in captured:
            blocks.setdefault(stream_of.id, block)
    for block in blocks.values():
        message = (
            "this warm-up does not wait for the stream that makes its inputs, so it may read them too early: "
            "`side.wait_stream(torch.cuda.current_stream())` first"
        )
        yield Problem(
            block.at, message, (Note(region.at, "captured here"),), severity="warning", function=block.function
        )


# ------------------------------------------------------------------------------- a backward that began outside


def _begun_outside(region: Region) -> Iterator[Problem]:
    """A captured backward through results that were computed before the capture, on the default stream."""
    backwards = [f for f in region.captured if isinstance(f, Op) and f.name.rpartition(".")[2] in ("backward", "grad")]
    backwards = [
        f for f in backwards if f.name in ("Tensor.backward", "torch.autograd.backward", "torch.autograd.grad")
    ]
    if not backwards:
        return
    begin = places.begins(region)
    for fact in region.captured:
        if fact.order > backwards[-1].order or not isinstance(fact, (Op, Operator, Index)):
            continue
        for value in queries.operands(fact):
            for tensor in tensors(value, 1):
                if not tensor.grad_graph or not tensor.sure or tensor.storage.born is not None or not _tracked(fact):
                    continue
                if tensor.storage.kind in ("parameter", "buffer", "unknown") or tensor.view in ("detach", "data"):
                    continue
                made = _maker(region, tensor)
                if made is None or begin is None or _eager_stream(made) is not None or _same_stream(region, made):
                    continue  # a side stream is forked from the capture by autograd, and joined again
                message = (
                    "this forward runs before the capture, but its backward is captured: autograd runs it on "
                    "the stream "
                    "of the forward; compute it inside the capture, or detach it"
                )
                notes = (Note(region.at, "captured here"), Note(backwards[-1].at, "its backward is captured here"))
                yield Problem(made.at, message, notes, function=made.function)
                return


def _tracked(fact: Fact) -> bool:
    return not any(c.name in ("torch.no_grad", "torch.inference_mode") for c in fact.contexts)


def _maker(region: Region, tensor: Tensor) -> Fact | None:
    """Where the tensor got its name, or where it was computed."""
    place: Place | None = tensor.place
    made: Fact | None = None
    for fact in region.before:
        if isinstance(fact, Bind) and fact.region is None and tensor.storage in queries.storages(fact.value, 0):
            if place is None or fact.place == place or fact.place.kind != "local":
                made = fact
        elif (
            made is None
            and isinstance(fact, (Op, Operator))
            and fact.region is None
            and tensor.storage in queries.storages(fact.result, 1)
        ):
            made = fact
    return made


def _same_stream(region: Region, made: Fact) -> bool:
    """True if the forward ran on the very stream that captures."""
    block = queries.stream_block(made)
    stream = cuda_streams.stream_of(block) if block is not None else None
    return stream is not None and stream.id == _own_stream(region)


def _problem(region: Region, fact: Fact, message: str) -> Problem:
    assert not isinstance(fact, CaptureEnd)
    return Problem(fact.at, message, region.way(fact), function=fact.function)
