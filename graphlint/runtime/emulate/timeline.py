"""The order of things on the emulated device: its streams, the capture that is open, the work that waits, and what was
said of all that.

Glossary:
    pending   work that the GPU would not have done yet (it stands behind a sleep or an asynchronous copy); it runs when
              the host waits for it.
    survey    a second run that answers refused reads with values, so that all of a run's faults are listed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.streams import Clock, Event, Line, Stream, merge
from graphlint.runtime.spelling import spelling

#: Enough for a run of any size that a person looks at; later captured calls are counted only.
MAX_EVENTS = 400_000


class Here(threading.local):
    """What belongs to one thread of the program."""

    stream: Stream | None = None
    """None: the default stream."""
    target: str | None = None
    """Where what is made now lies: "cuda", "cpu", or where its inputs lie (None)."""
    explicit = 0
    """Python itself called a factory and meant the CPU."""
    arguments: Any = ()
    """Of the call that watchers are told of."""

    def __init__(self) -> None:  # once in each thread; autograd, too, counts the nodes of each thread
        self.stream_changes: list[tuple[int, int]] = []
        self.forward_sites: dict[int, events.Stack] = {}
        """Where autograd nodes were made on the default stream, by their number."""


class Timeline:
    """`survey` notes refusals and goes on."""

    def __init__(self, survey: bool = False) -> None:
        self.survey = survey
        self.lock = threading.RLock()
        """Held during each call and each note, so that threads of the program meet between them only, as on a
        stream."""
        self.default = Stream(line=Line(0))
        self.here = Here()
        self.order = 0
        self.events: list[events.Event] = []
        self.peak_events = MAX_EVENTS
        self.listeners: list[Callable[[str, dict[str, Any], events.Stack], None]] = []
        self.counts: Clock = {}
        """Of each stream, its last operation."""
        self.host: Clock = {}
        """What the host has waited for: all work that follows comes after it."""
        self.pending: list[Any] = []
        self.capture: Any = None
        self.broken: str | None = None

    # ---------------------------------------------------------------- events
    def log(self, record: type[events.Event], /, **data: Any) -> None:
        with self.lock:
            self.order += 1
            if len(self.events) < self.peak_events or record is not events.Call:
                self.events.append(record(order=self.order, at=data.pop("at", None) or frames.user_sites(), **data))

    def note(self, name: str, graph: int | None = None, **data: object) -> None:
        at = frames.user_sites()
        with self.lock:
            self.log(events.Note, at=at, name=name, graph=graph, data=data)
            for listener in self.listeners:
                listener(name, data, at)

    # ---------------------------------------------------------------- streams
    def current_stream(self) -> Stream:
        return self.here.stream or self.default

    def set_stream(self, stream: Stream) -> None:
        if stream.line is not self.current_stream().line:
            self.here.stream = stream
            self.here.stream_changes.append((torch._C._autograd._get_sequence_nr(), stream.line.id))
        else:
            self.here.stream = stream

    def entered_stream(self, stream: Stream) -> None:
        if self.capture is not None:
            self.note(
                "stream-entered", self.capture.number, stream=stream.line.id, member=stream.line.capture is not None
            )

    def stream_at(self, sequence: int) -> int:
        """The stream that was current when the autograd node of that number was made."""
        found = 0
        for start, stream in self.here.stream_changes:
            if start > sequence:
                break
            found = stream
        return found

    def capturing(self) -> bool:
        return self.current_stream().line.capture is not None

    def wait(self, line: Line, event: Event) -> None:
        """`line`'s next work comes after what `event` recorded."""
        if event.clock is None:
            return
        if line.capture is not None and event.capture is not line.capture:
            if event.external:
                return
            self.refuse("stream", "wait", texts.ISOLATION)
            return
        if event.capture is not None and line.capture is None:
            if event.capture is not self.capture:
                return
            if line.id == 0:
                self.refuse("stream", "wait", texts.IMPLICIT)
                return
            event.capture.join(line)
        merge(line.clock, event.clock)

    def recorded(self, event: Event, line: Line) -> None:
        if self.pending:
            self.pending.append(Mark(line))

    def guarded(self) -> bool:
        """Whether a capture is open that watches the calls of this thread: its own, or one in "global" mode."""
        capture = self.capture
        return capture is not None and (capture.mode == "global" or capture.thread == threading.get_ident())

    def asked(self, line: Line, how: str) -> None:
        """A query of a stream; a capture allows none."""
        if self.guarded() or line.capture is not None:
            self.refuse("sync", how, texts.NOT_PERMITTED)

    # ---------------------------------------------------------------- waiting and pending work
    def host_waits(self, clock: Clock, how: str, line: Line | None = None) -> None:
        """The host stops until the work in `clock` is done."""
        if self.guarded() or (line is not None and line.capture is not None):
            self.refuse("sync", how, texts.NOT_PERMITTED)
        self.flush(clock)
        self.check()

    def synchronize(self, how: str = "synchronize") -> None:
        if self.capture is not None:
            self.refuse("sync", how, texts.NOT_PERMITTED)
        self.flush(None)
        self.check()

    def check(self) -> None:
        if self.broken is not None:
            raise texts.cuda_error(self.broken)

    def behind_pending(self, line: Line) -> bool:
        """Whether the next work of `line` comes after work that waits."""
        return any(line.clock.get(p.line.id, 0) >= p.count for p in self.pending if p.waits)

    def unfinished(self, clock: Clock) -> bool:
        return any(clock.get(p.line.id, 0) >= p.count for p in self.pending if p.waits)

    def flush(self, clock: Clock | None) -> None:
        """Does the pending work that `clock` comes after; all of it if None."""
        with self.lock:
            merge(self.host, self.counts if clock is None else clock)
            if not self.pending:
                return
            rest = []
            waiting, self.pending = self.pending, []
            with torch.inference_mode():
                for work in waiting:
                    if clock is None or clock.get(work.line.id, 0) >= work.count:
                        work.run(self)
                    else:
                        rest.append(work)
            self.pending = rest + self.pending

    # ---------------------------------------------------------------- refusals
    def refuse(
        self,
        kind: str,
        how: str,
        text: str,
        detail: str = "",
        invalidates: bool | None = None,
        made_at: events.Stack = (),
    ) -> None:
        """Says no as the GPU does; in a survey only notes it.

        Raises:
            RuntimeError: with the GPU's text, unless this is a survey.
        """
        capture = self.capture
        frame = frames.user_frame()
        self.log(
            events.Refusal,
            graph=capture.number if capture is not None else None,
            kind=kind,
            how=how,
            text=text.splitlines()[0],
            detail=detail,
            made_at=made_at,
            spelled=spelling(frame) if frame is not None else "",
            through=frames.torch_files(),
            thread=capture is not None and capture.thread != threading.get_ident(),
        )
        for listener in self.listeners:
            listener("refused", {"kind": kind, "how": how}, ())
        if self.survey and kind not in ("nested", "recapture", "pool", "not-captured", "replay"):
            return
        cuda = text.startswith(("CUDA error", "cuDNN error"))
        if capture is not None and (invalidates if invalidates is not None else cuda):
            capture.invalid = True
        raise texts.cuda_error(text) if cuda else RuntimeError(text)


class Mark:
    """An event recorded behind pending work; nothing to do."""

    waits = False

    def __init__(self, line: Line) -> None:
        self.line, self.count = line, line.clock.get(line.id, 0)

    def run(self, timeline: Timeline) -> None:
        """Marks an order only."""


class Sleep:
    """`torch.cuda._sleep`: everything behind it waits."""

    waits = True

    def __init__(self, line: Line) -> None:
        self.line, self.count = line, line.tick()

    def run(self, timeline: Timeline) -> None:
        """Time passes."""
