"""Streams beside the capture: static inputs that a replay does not await, warm-ups begun too early, and a backward that
was begun outside."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint import cuda_streams, places, queries
from graphlint.fact import Bind, Context, Fact, HostRead, Index, Op, Operator, Replay, Unfollowed, Write
from graphlint.finding import Note, Problem
from graphlint.region import Region
from graphlint.value import Place, Storage, Tensor, tensors

from .capturing import own_stream


def not_awaited(region: Region) -> Iterator[Problem]:
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


def warmed_too_early(region: Region) -> Iterator[Problem]:
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


def begun_outside(region: Region) -> Iterator[Problem]:
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
    return stream is not None and stream.id == own_stream(region)
