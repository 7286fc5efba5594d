"""Watches real captures: where each begins and ends, what it records, and the real cause of one that fails.

Nothing is changed: the wrappers around `torch.cuda.CUDAGraph` call torch's own methods with the same arguments, let
every
exception out as it came, and are removed at the end. The error that users see ("operation failed due to a previous
error
during capture") is raised by `capture_end`; its cause is the exception that was in flight, and its line is the
innermost
line of the user's code in that exception's traceback.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import sys
import weakref
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.cuda.calling import Watch
from graphlint.runtime.cuda.calls import Calls
from graphlint.runtime.cuda.outline import Outline
from graphlint.runtime.cuda.timing import Timing
from graphlint.runtime.emulate.timeline import MAX_EVENTS
from graphlint.runtime.spelling import spelling


class Open:
    """A capture under way."""

    def __init__(self, number: int, watch: Watch, reserved: int) -> None:
        self.number, self.watch, self.reserved = number, watch, reserved

    @property
    def launched(self) -> int:
        return len(self.watch.calls.log)


class Observer:
    """Holds the events of one run. It has the parts of the emulator's machine that the journal asks for."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []
        self.order = 0
        self.capture: Open | None = None
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Of each graph that lives, the number of its latest capture."""
        self.replays: dict[int, int] = {}
        self._next = itertools.count(1)
        self.timing: Timing | None = None
        self.pools: dict[int, Any] = {}
        """The memory pool of each captured graph."""
        self.journal: Outline | None = None
        """Who knows the user's line that runs; without one it is looked for on the stack, call by call."""
        self.calls: dict[int, Calls] = {}
        """Of each capture that has ended."""

    def log(self, record: type[events.Event], /, **data: Any) -> None:
        self.order += 1
        self.events.append(record(order=self.order, at=data.pop("at", None) or frames.user_sites(), **data))

    def note(self, name: str, graph: int | None = None, **data: object) -> None:
        self.log(events.Note, name=name, graph=graph, data=data)

    def capturing(self) -> bool:
        return self.capture is not None

    # ------------------------------------------------------------ what the wrappers call
    def began(self, graph: Any, mode: str, pool_given: bool) -> None:
        number = self.numbers[graph] = next(self._next)
        self.log(events.CaptureBegin, graph=number, mode=mode, pool_given=pool_given)
        if self.journal is not None:
            self.journal.begin()
        watch = Watch(self.journal.stack if self.journal is not None else [])
        self.capture = Open(number, watch, _reserved())
        watch.begin()

    def ending(self) -> Open | None:
        opened, self.capture = self.capture, None
        if opened is not None:
            opened.watch.end()
        return opened

    def ended(self, opened: Open | None, error: BaseException | None, inflight: BaseException | None) -> None:
        if opened is None:
            return
        cause = inflight if inflight is not None else (error.__context__ if error is not None else None)
        if cause is not None:
            self.cause(opened.number, cause)
        text = _first(error) if error is not None else _first(cause) if cause is not None else None
        calls = self.calls[opened.number] = opened.watch.calls
        self.log(
            events.CaptureEnd,
            graph=opened.number,
            error=text,
            calls=len(calls.log),
            pool_bytes=max(_reserved() - opened.reserved, 0),
            outputs=calls.outputs(),
        )

    def cause(self, number: int, error: BaseException) -> None:
        """Notes what broke the capture, at its own line."""
        root = error
        while root.__context__ is not None and "previous error during capture" in str(root):
            root = root.__context__
        stack, how = _places(root.__traceback__)
        text = _first(root)
        kind = kind_of(text, root)
        self.log(
            events.Refusal,
            at=stack,
            graph=number,
            kind=kind,
            how="",
            text=text,
            spelled=how,
            through=_through(root.__traceback__),
        )

    def finish(self) -> None:
        """At the end of the run: what was noted becomes events."""
        if self.capture is not None:
            self.calls[self.capture.number] = self.capture.watch.calls
        segments = _segments()
        graphs = Counter(self.pools.values())
        run, self.events = self.events, []
        for event in run:
            self.events.append(event)
            if isinstance(event, events.CaptureBegin):
                calls = self.calls.get(event.graph)
                for name, at in calls.sites() if calls is not None else ():
                    if len(self.events) < MAX_EVENTS:
                        self.events.append(events.Call(order=event.order, at=at, graph=event.graph, name=name))
            elif isinstance(event, events.CaptureEnd) and event.graph in self.calls:
                pool = self.pools.get(event.graph)
                own = segments.get(pool, [])
                # until here a pool was taken to be as large as what the device gave to it
                event.pool_bytes = sum(size for _, size in own) or event.pool_bytes
                # what lies in a pool of the graph's own was made in the capture, by code that torch does not see
                event.inputs = self.calls[event.graph].inputs(own if graphs[pool] == 1 else [])
        self.calls.clear()

    def replayed(self, graph: Any) -> None:
        number = self.numbers.get(graph)
        if number is not None:
            seen = self.replays[number] = self.replays.get(number, 0) + 1
            if seen <= 1000:
                self.log(events.Replay, graph=number, first=seen == 1)


def kind_of(text: str, error: BaseException) -> str:
    """The kind of a refusal, by torch's words."""
    if "Cannot copy between CPU and CUDA tensors" in text:
        return "host-copy" if not _reads(error) else "sync"
    if "CUDAGeneratorImpl" in text or "offset for a CUDA generator" in text:
        return "rng"
    if "capturable" in text:
        return "optimizer"
    if "CUBLAS" in text or "CUDNN" in text or "is prohibited" in text:
        return "first-use"
    if "legacy stream" in text or "stale reference" in text:
        return "autograd"
    if "unjoined" in text or "uncaptured work" in text:
        return "stream"
    if "already owns a captured graph" in text or "non-default stream" in text:
        return "recapture"
    if "without a preceding successful capture" in text:
        return "not-captured"
    if "use_count" in text:
        return "pool"
    if "accessing tensor output of CUDAGraphs" in text or "accessing gradient tensor" in text:
        return "overwritten"
    if _dynamic(error):
        return "dynamic-shape"
    return "sync"


_READS = ("cpu", "numpy", "tolist", "item")
_DYNAMIC = (
    "nonzero",
    "masked_select",
    "unique",
    "unique_consecutive",
    "argwhere",
    "bincount",
    "repeat_interleave",
    "one_hot",
    "combinations",
)


def _line(error: BaseException) -> str:
    import linecache

    trace, found = error.__traceback__, ""
    while trace is not None:
        if frames.is_user(trace.tb_frame.f_code.co_filename):
            found = linecache.getline(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _reads(error: BaseException) -> bool:
    return any(f".{name}(" in _line(error) for name in _READS) or '.to("cpu"' in _line(error)


def _dynamic(error: BaseException) -> bool:
    return any(f"{name}(" in _line(error) for name in _DYNAMIC)


def _places(trace: TracebackType | None) -> tuple[events.Stack, str]:
    """The user's frames of a traceback, innermost first, and how the innermost spelled it."""
    sites: list[frames.Site] = []
    how = ""
    while trace is not None:
        frame = trace.tb_frame
        name = frame.f_code.co_filename
        if frames.is_user(name) or frames.is_library(name):
            sites.append(frames.Site(name, trace.tb_lineno, frames.qualified(frame)))
            if frames.is_user(name):
                how = spelling(frame, trace.tb_lasti, trace.tb_lineno)
        trace = trace.tb_next
    return tuple(reversed(sites)), how


#: Files that every call goes through while it is watched.
_PASSED = ("_ops.py", "overrides.py", "utils/_python_dispatch.py")


def _through(trace: TracebackType | None) -> tuple[str, ...]:
    """torch's own functions below the innermost user's line."""
    found: list[str] = []
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        name = frames.torch_file(path)
        if frames.is_user(path):
            found.clear()
        elif name and name not in _PASSED:
            found.append(f"{name}:{trace.tb_frame.f_code.co_name}")
        trace = trace.tb_next
    return tuple(found)


def _first(error: BaseException | None) -> str:
    lines = str(error).splitlines() if error is not None else []
    return lines[0] if lines else type(error).__name__


def _segments() -> dict[Any, list[tuple[int, int]]]:
    """Of each memory pool that the allocator still knows, its segments: where they start, and their bytes."""
    found: dict[Any, list[tuple[int, int]]] = {}
    with contextlib.suppress(RuntimeError, AssertionError):
        for segment in torch.cuda.memory_snapshot():
            pool = tuple(segment.get("segment_pool_id", ()))
            found.setdefault(pool, []).append((int(segment.get("address", 0)), int(segment["total_size"])))
    return found


def _reserved() -> int:
    try:
        return int(torch.cuda.memory_reserved())
    except (RuntimeError, AssertionError):
        return 0


@contextlib.contextmanager
def observed() -> Iterator[Observer]:
    """Watches the captures of the code inside; `torch.cuda.CUDAGraph` is as before afterwards."""
    observer = Observer()
    kind = torch.cuda.CUDAGraph
    names = ("capture_begin", "capture_end", "replay")
    own = {name: vars(kind).get(name) for name in names}
    raw = {name: getattr(kind, name) for name in names}

    @functools.wraps(raw["capture_begin"])
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            out = raw["capture_begin"](self, *args, **kwargs)
        except BaseException as error:
            observer.log(
                events.Refusal, graph=None, kind=kind_of(_first(error), error), how="capture_begin", text=_first(error)
            )
            raise
        observer.began(self, str(kwargs.get("capture_error_mode", "global")), bool(args or kwargs.get("pool")))
        return out

    @functools.wraps(raw["capture_end"])
    def capture_end(self: Any, *args: Any, **kwargs: Any) -> Any:
        inflight = sys.exc_info()[1]
        opened = observer.ending()
        try:
            out = raw["capture_end"](self, *args, **kwargs)
        except BaseException as error:
            observer.ended(opened, error, inflight)
            raise
        if opened is not None:
            observer.pools[opened.number] = tuple(self.pool())
        observer.ended(opened, None, inflight)
        return out

    @functools.wraps(raw["replay"])
    def replay(self: Any, *args: Any, **kwargs: Any) -> Any:
        timing, number = observer.timing, observer.numbers.get(self, 0)
        begun = timing.replay(number) if timing is not None else None
        try:
            out = raw["replay"](self, *args, **kwargs)
        except BaseException as error:
            observer.log(
                events.Refusal,
                graph=observer.capture.number if observer.capture else None,
                kind="replay" if observer.capture else kind_of(_first(error), error),
                how="replay",
                text=_first(error),
                detail=str(number),
            )
            raise
        if timing is not None:
            timing.replayed(number, begun)
        observer.replayed(self)
        return out

    for name, wrapper in (("capture_begin", capture_begin), ("capture_end", capture_end), ("replay", replay)):
        setattr(kind, name, wrapper)
    try:
        yield observer
    finally:
        for name, value in own.items():
            if value is None:
                delattr(kind, name)
            else:
                setattr(kind, name, value)
