"""Streams and events of the emulated GPU: who is ordered after whom.

Every stream counts its operations; a clock says, for each stream, up to which of its operations something is ordered.
`event.record()` copies the stream's clock, `wait` takes the larger of both. Work on stream B that is in A's clock has
happened before A's next operation; anything else may run at the same time.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

from graphlint.runtime.emulate import texts

if TYPE_CHECKING:
    from graphlint.runtime.emulate.graph import Capture
    from graphlint.runtime.emulate.machine import Machine

Clock = dict[int, int]


def merge(into: Clock, other: Clock) -> None:
    for stream, count in other.items():
        if count > into.get(stream, 0):
            into[stream] = count


class Line:
    """What is known of one stream. `capture` is set while the stream takes part in a capture."""

    __slots__ = ("capture", "clock", "id", "worked")

    def __init__(self, number: int) -> None:
        self.id = number
        self.clock: Clock = {}
        self.capture: Capture | None = None
        self.worked = 0
        """The count of the last captured operation."""

    def tick(self) -> int:
        count = self.clock[self.id] = self.clock.get(self.id, 0) + 1
        if self.capture is not None:
            self.worked = count
        return count


def _machine() -> Machine:
    from graphlint.runtime.emulate.machine import current

    return current()


class Stream:
    """Stands for torch.cuda.Stream and torch.Stream; `priority` and `device` are accepted and kept."""

    _next = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, *, line: Line | None = None, **_: Any) -> None:
        if line is None:
            line = Line(next(Stream._next))
        self.line, self.priority = line, priority
        self._outer: list[Stream] = []

    @property
    def cuda_stream(self) -> int:
        return 0 if self.line.id == 0 else 0x5000_0000 + self.line.id

    @property
    def stream_id(self) -> int:
        return self.line.id

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    @property
    def device_index(self) -> int:
        return 0

    @property
    def device_type(self) -> int:
        return 1

    @property
    def _as_parameter_(self) -> int:
        return self.cuda_stream

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other.line is self.line

    def __hash__(self) -> int:
        return hash(("stream", self.line.id))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"

    def wait_stream(self, stream: Stream) -> None:
        self.wait_event(stream.record_event())

    def wait_event(self, event: Event) -> None:
        _machine().wait(self.line, event)

    def record_event(self, event: Event | None = None) -> Event:
        event = event if event is not None else Event()
        event.record(self)
        return event

    def synchronize(self) -> None:
        _machine().host_waits(self.line.clock, "Stream.synchronize", self.line)

    def query(self) -> bool:
        machine = _machine()
        machine.asked(self.line, "Stream.query")
        return not machine.unfinished(self.line.clock)

    def is_capturing(self) -> bool:
        return self.line.capture is not None

    def native_handle(self) -> int:
        return self.cuda_stream

    def __enter__(self) -> Stream:
        machine = _machine()
        self._outer.append(machine.current_stream())
        machine.set_stream(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _machine().set_stream(self._outer.pop())


class Event:
    """Stands for torch.cuda.Event and torch.Event."""

    def __init__(self, *args: Any, enable_timing: bool = False, external: bool = False, **_: Any) -> None:
        self.enable_timing, self.external = enable_timing, external
        self.clock: Clock | None = None
        self.line: Line | None = None
        self.capture: Capture | None = None
        self._time = 0.0

    @property
    def device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    @property
    def cuda_event(self) -> int:
        return id(self)

    event_id = cuda_event

    def record(self, stream: Stream | None = None) -> None:
        machine = _machine()
        line = (stream if stream is not None else machine.current_stream()).line
        line.clock.setdefault(line.id, 0)
        self.clock, self.line, self.capture, self._time = dict(line.clock), line, line.capture, time.perf_counter()
        machine.recorded(self, line)

    def wait(self, stream: Stream | None = None) -> None:
        (stream if stream is not None else _machine().current_stream()).wait_event(self)

    def synchronize(self) -> None:
        machine = _machine()
        if self.capture is not None and self.capture is machine.capture:
            machine.refuse("sync", "Event.synchronize", texts.CAPTURED_EVENT)
        elif self.clock is not None:
            machine.host_waits(self.clock, "Event.synchronize", self.line)

    def query(self) -> bool:
        machine = _machine()
        if self.capture is not None and self.capture is machine.capture:
            machine.refuse("sync", "Event.query", texts.CAPTURED_EVENT)
        elif machine.capture is not None and self.line is not None and self.line.capture is not None:
            machine.refuse("sync", "Event.query", texts.NOT_PERMITTED)
        return self.clock is None or not machine.unfinished(self.clock)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds; host time stands for the GPU's."""
        machine = _machine()
        if machine.capture is not None and machine.capture in (self.capture, end.capture):
            machine.refuse("sync", "Event.elapsed_time", texts.CAPTURED_EVENT)
        if self.clock is None or end.clock is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return max((end._time - self._time) * 1e3, 1e-3)

    def ipc_handle(self) -> bytes:
        return b""


class StreamContext:
    """Stands for torch.cuda.stream(...) and torch.cuda.StreamContext; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._outer: Stream | None = None

    def __enter__(self) -> Stream | None:
        if self.stream is not None:
            machine = _machine()
            self._outer = machine.current_stream()
            machine.set_stream(self.stream)
            machine.entered_stream(self.stream)
        return self.stream

    def __exit__(self, *exc: object) -> None:
        if self._outer is not None:
            _machine().set_stream(self._outer)
            self._outer = None
