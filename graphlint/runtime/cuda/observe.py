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

import functools
import itertools
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphlint.runtime import events, frames
from graphlint.runtime.cuda.timing import Timing
from graphlint.runtime.emulate.record import flat, tensors_in
from graphlint.runtime.emulate.storages import storage_of
from graphlint.runtime.spelling import spelling

Tensor = torch.Tensor


class Recorder(TorchDispatchMode):
    """Counts the aten calls of a capture, with the lines they come from."""

    def __init__(self, observer: Observer, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.observer, self.number, self.calls = observer, number, 0
        self.reads: dict[int, events.Static] = {}
        self.makes: dict[int, tuple[weakref.ref[Any], events.Static]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        self.observer.log(events.Call, graph=self.number, name=func._schema.name)
        kwargs = kwargs or {}
        for t in tensors_in(args, kwargs):
            if t.is_cuda and t.layout is torch.strided:
                start = storage_of(t).data_ptr()
                if start not in self.reads and start not in self.makes:
                    self.reads[start] = events.Static.of(t)
        out = func(*args, **kwargs)
        for t in flat(out):
            if t.is_cuda and t.layout is torch.strided:
                start = storage_of(t).data_ptr()
                if start not in self.reads:
                    self.makes[start] = weakref.ref(t), events.Static.of(t)
        return out


class Open:
    """A capture under way."""

    def __init__(self, number: int, mode: Recorder, reserved: int) -> None:
        self.number, self.mode, self.reserved = number, mode, reserved

    @property
    def launched(self) -> int:
        return self.mode.calls


class Observer:
    """Holds the events of one run. It has the parts of the emulator's machine that the journal asks for."""

    def __init__(self) -> None:
        self.events: list[events.Event] = []
        self.order = 0
        self.capture: Open | None = None
        self.numbers: dict[int, int] = {}
        self.replays: dict[int, int] = {}
        self._next = itertools.count(1)
        self.timing: Timing | None = None
        self.pools: dict[int, Any] = {}
        """The memory pool of each captured graph."""

    def log(self, record: type[events.Event], /, **data: Any) -> None:
        self.order += 1
        self.events.append(record(order=self.order, at=data.pop("at", None) or frames.user_sites(), **data))

    def note(self, name: str, graph: int | None = None, **data: object) -> None:
        self.log(events.Note, name=name, graph=graph, data=data)

    def capturing(self) -> bool:
        return self.capture is not None

    # ------------------------------------------------------------ what the wrappers call
    def began(self, graph: Any, mode: str, pool_given: bool) -> None:
        number = self.numbers[id(graph)] = next(self._next)
        self.log(events.CaptureBegin, graph=number, mode=mode, pool_given=pool_given)
        recorder = Recorder(self, number)
        recorder.__enter__()  # type: ignore[no-untyped-call]
        self.capture = Open(number, recorder, _reserved())

    def ending(self) -> Open | None:
        opened, self.capture = self.capture, None
        if opened is not None:
            opened.mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        return opened

    def ended(self, opened: Open | None, error: BaseException | None, inflight: BaseException | None) -> None:
        if opened is None:
            return
        cause = inflight if inflight is not None else (error.__context__ if error is not None else None)
        if cause is not None:
            self.cause(opened.number, cause)
        text = _first(error) if error is not None else _first(cause) if cause is not None else None
        mode = opened.mode
        self.log(
            events.CaptureEnd,
            graph=opened.number,
            error=text,
            calls=mode.calls,
            pool_bytes=max(_reserved() - opened.reserved, 0),
            inputs=tuple(mode.reads.values()),
            outputs=tuple(static for held, static in mode.makes.values() if held() is not None),
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

    def measure(self) -> None:
        """At the end of the run: what the pools hold, where the allocator still knows them. Until then a capture's
        pool is as large as what the device gave to it."""
        sizes: dict[Any, int] = {}
        try:
            for segment in torch.cuda.memory_snapshot():
                pool = tuple(segment.get("segment_pool_id", ()))
                sizes[pool] = sizes.get(pool, 0) + int(segment["total_size"])
        except (RuntimeError, AssertionError):
            return
        for event in self.events:
            if isinstance(event, events.CaptureEnd):
                event.pool_bytes = sizes.get(self.pools.get(event.graph), event.pool_bytes)

    def replayed(self, graph: Any) -> None:
        number = self.numbers.get(id(graph))
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


def _through(trace: TracebackType | None) -> tuple[str, ...]:
    """torch's own functions below the innermost user's line."""
    found: list[str] = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename.replace("\\", "/")
        if frames.is_user(name):
            found.clear()
        elif "/torch/" in name and not name.endswith(("/torch/_ops.py", "/torch/utils/_python_dispatch.py")):
            found.append(f"{name.rsplit('/torch/', 1)[1]}:{trace.tb_frame.f_code.co_name}")
        trace = trace.tb_next
    return tuple(found)


def _first(error: BaseException | None) -> str:
    lines = str(error).splitlines() if error is not None else []
    return lines[0] if lines else type(error).__name__


def _reserved() -> int:
    try:
        return int(torch.cuda.memory_reserved())
    except (RuntimeError, AssertionError):
        return 0


@contextmanager
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
        timing, number = observer.timing, observer.numbers.get(id(self), 0)
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
