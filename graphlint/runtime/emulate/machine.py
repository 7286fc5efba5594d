"""The emulated device: its memory, its streams, the capture that is open, the work that waits.

Glossary:
    ghost     a tensor over device memory that keeps nothing alive: what a graph holds of its inputs.
    pending   work that the GPU would not have done yet (it stands behind a sleep or an asynchronous copy); it runs when
              the host waits for it.
    survey    a second run that answers refused reads with values, so that all of a run's faults are listed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.arena import EAGER, Arena, Block, OutOfMemory, PoolId
from graphlint.runtime.emulate.storages import storage_of
from graphlint.runtime.emulate.streams import Clock, Event, Line, Stream, merge
from graphlint.runtime.spelling import spelling

Tensor = torch.Tensor
_CPU = torch.device("cpu")
_storage_of = storage_of
#: Enough for a run of any size that a person looks at; later captured calls are counted only.
MAX_EVENTS = 400_000


class TooLarge(BaseException):
    """The program holds more device memory than values are emulated for."""


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


class Machine:
    """One emulated GPU. `version` is the torch version whose behaviour is followed."""

    def __init__(self, version: tuple[int, int] = (2, 11), survey: bool = False) -> None:
        self.version, self.survey = version, survey
        self.arena = Arena()
        self.arena.may_grow = self._may_grow
        self.streams_past_first_use: set[int] = set()
        """Streams on which library work has run: measured, an eager allocation there was not refused in a capture."""
        self.default = Stream(line=Line(0))
        self.here = Here()
        self.lock = threading.RLock()
        """Held during each call, so that threads of the program meet between calls only, as on a stream."""
        self.capture: Any = None
        self.pending: list[Any] = []
        self.events: list[events.Event] = []
        self.order = 0
        self.poisoned: dict[int, tuple[str, events.Stack]] = {}
        """Outputs that a compiled function took back, by their storage; touching one raises."""
        self.stale: dict[int, tuple[weakref.ref[Any], events.Stack]] = {}
        """Outputs of compiled functions whose memory a later call took, by the tensor's id."""
        self.trees: Any = None
        self.broken: str | None = None
        self.libraries: set[tuple[str, bool]] = set()
        self.pinned: dict[int, weakref.ref[Any]] = {}
        self.numbers: dict[int, weakref.ref[Any]] = {}
        self.stream_changes: list[tuple[int, int]] = []
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self.owners: dict[int, weakref.ref[Any]] = {}
        self.births: dict[int, events.Stack] = {}
        self.made: dict[int, int] = {}
        """For each block in use, the order of the event at which it was made."""
        self.on_free: list[Callable[[Block], None]] = []
        self.on_make: list[Callable[[Block, str], None]] = []
        self.on_graph: list[Callable[[Any], None]] = []
        self.on_replay: list[Callable[[Any], None]] = []
        self.on_failure: list[Callable[[int], None]] = []
        self.after_replay: list[Callable[[Any], None]] = []
        self.on_host_write: list[Callable[[list[Tensor]], None]] = []
        self.on_host_read: list[Callable[[list[Tensor]], None]] = []
        self.counts: Clock = {}
        """Of each stream, its last operation."""
        self.host: Clock = {}
        """What the host has waited for: all work that follows comes after it."""
        self.on_call: list[Callable[[Any, str, list[Tensor], list[Tensor], list[Tensor], int], None]] = []
        self.autocasts: list[Any] = []
        """Where the open autocast contexts were made, outermost first."""
        self.trace_births = True
        self.most: int | None = None
        """Bytes of device memory up to which values are emulated."""
        self.closing = False
        self.compiled_region: Any = None
        self.forward_sites: dict[int, events.Stack] = {}
        """Where autograd nodes were made on the default stream, by their number."""
        self.listeners: list[Callable[[str, dict[str, Any], events.Stack], None]] = []
        self.peak_events = MAX_EVENTS

    # ---------------------------------------------------------------- events
    def log(self, record: type[events.Event], /, **data: Any) -> None:
        self.order += 1
        if len(self.events) < self.peak_events or record is not events.Call:
            self.events.append(record(order=self.order, at=data.pop("at", None) or frames.user_sites(), **data))

    def note(self, name: str, graph: int | None = None, **data: object) -> None:
        at = frames.user_sites()
        self.log(events.Note, at=at, name=name, graph=graph, data=data)
        for listener in self.listeners:
            listener(name, data, at)

    # ---------------------------------------------------------------- streams
    def current_stream(self) -> Stream:
        return self.here.stream or self.default

    def set_stream(self, stream: Stream) -> None:
        if stream.line is not self.current_stream().line:
            self.here.stream = stream
            self.stream_changes.append((torch._C._autograd._get_sequence_nr(), stream.line.id))
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
        for start, stream in self.stream_changes:
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
            if capture is not None:
                capture.surveyed = True
            return
        cuda = text.startswith(("CUDA error", "cuDNN error"))
        if capture is not None and (invalidates if invalidates is not None else cuda):
            capture.invalid = True
        raise texts.cuda_error(text) if cuda else RuntimeError(text)

    def _may_grow(self, stream: int) -> None:
        capture = self.capture
        if capture is None or capture.mode == "relaxed" or not self.guarded():
            return
        line = self.current_stream().line
        if line.capture is None and line.id not in self.streams_past_first_use:
            self.refuse("stream", "allocation", texts.NOT_PERMITTED)

    # ---------------------------------------------------------------- memory
    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in device memory."""
        try:
            return bool(self.arena.base <= _storage_of(tensor).data_ptr() < self.arena.end)
        except (RuntimeError, NotImplementedError):
            return False

    def address(self, tensor: Tensor) -> int:
        """Where the tensor's storage begins."""
        return int(_storage_of(tensor).data_ptr())

    fake = False
    """Whether tensors have no values."""

    def allocate(self, size: int) -> Block:
        """A block for the work of the current stream, from the pool of its capture if it is in one."""
        line = self.current_stream().line
        pool: PoolId = line.capture.pool if line.capture is not None else EAGER
        if self.compiled_region is not None and line.capture is None:
            pool = self.compiled_region.pool(self) or pool
        if self.most is not None and self.arena.allocated + size > self.most:
            raise TooLarge
        try:
            return self.arena.allocate(size, line.id, pool)
        except OutOfMemory as error:
            self.note("out-of-memory")
            raise torch.OutOfMemoryError(f"CUDA out of memory. {error}") from None

    def storage(self, size: int, why: str) -> Any:
        """A new device storage of `size` bytes, given back when the last tensor over it is gone."""
        block = self.allocate(size)
        storage = torch._C._construct_storage_from_data_pointer(block.start, _CPU, size)
        self._own(block, storage, why)
        return storage

    def _own(self, block: Block, storage: Any, why: str) -> None:
        start = block.start

        def gone(_: Any, self: Machine = self) -> None:
            if self.closing or sys.is_finalizing():
                return
            with self.lock:
                self.owners.pop(start, None)
                for watcher in self.on_free:
                    watcher(block)
                self.births.pop(start, None)
                if self.capture is not None and start in self.capture.own:
                    self.capture.held -= block.size
                self.arena.release(block)

        self.owners[start] = weakref.ref(storage, gone)
        self.order += 1
        self.made[start] = self.order
        if self.trace_births:
            self.births[start] = frames.user_sites(6)
        for maker in self.on_make:
            maker(block, why)
        capture = self.current_stream().line.capture
        if capture is not None:
            capture.own.add(start)
            capture.held += block.size
            capture.peak = max(capture.peak, capture.held)

    def place(self, value: Tensor, why: str) -> Tensor:
        """`value`, in device memory: a new storage with the same bytes, and a tensor over it."""
        source = _storage_of(value)
        size = source.nbytes()
        storage = self.storage(size, why)
        if size:
            ctypes.memmove(storage.data_ptr(), source.data_ptr(), size)
        return self.over(storage, value)

    def over(self, storage: Any, like: Tensor) -> Tensor:
        made = torch.empty(0, dtype=like.dtype).set_(storage, like.storage_offset(), like.size(), like.stride())
        if like.is_conj():
            made = torch._C._VariableFunctions._conj(made) if hasattr(torch._C, "_VariableFunctions") else made
        return made

    def ghost(self, tensor: Tensor) -> Tensor:
        """A tensor over the same addresses that keeps nothing alive."""
        source = _storage_of(tensor)
        storage = torch._C._construct_storage_from_data_pointer(source.data_ptr(), _CPU, source.nbytes())
        return self.over(storage, tensor)

    def is_pinned(self, tensor: Tensor) -> bool:
        key = _storage_of(tensor)._cdata
        reference = self.pinned.get(key)
        return reference is not None and reference() is not None

    def pin(self, tensor: Tensor) -> Tensor:
        storage = _storage_of(tensor)
        key = storage._cdata
        self.pinned[key] = weakref.ref(storage, functools.partial(_forget, self.pinned, key))
        return tensor

    def number(self, tensor: Tensor) -> None:
        """Notes a tensor that torch's own C++ code made; on the GPU it would have been made there."""
        storage = _storage_of(tensor)
        key = storage._cdata
        self.numbers[key] = weakref.ref(storage, functools.partial(_forget, self.numbers, key))

    def is_number(self, tensor: Tensor) -> bool:
        return _storage_of(tensor)._cdata in self.numbers

    def poison(self, storage: Any, text: str, site: events.Stack) -> None:
        """Touching a tensor over `storage` raises from now on."""
        key = storage._cdata
        self.poisoned[key] = (text, site)
        weakref.finalize(storage, self.poisoned.pop, key, None)

    def use_library(self, name: str, error: str) -> None:
        """The first use of a CUDA library in a thread sets it up, which a capture does not allow."""
        key = (name, torch._C._current_graph_task_id() != -1)
        self.streams_past_first_use.add(self.current_stream().line.id)
        if key in self.libraries:
            return
        if self.capturing():
            self.refuse("first-use", name, error)
        self.libraries.add(key)

    @contextlib.contextmanager
    def towards(self, target: str | None) -> Iterator[None]:
        """What this thread makes inside lies on `target`: "cuda", "cpu", or where its inputs lie (None)."""
        here = self.here
        outer, here.target = here.target, target
        try:
            yield
        finally:
            here.target = outer


def _forget(table: dict[int, Any], key: int, _: object) -> None:
    table.pop(key, None)


class Mark:
    """An event recorded behind pending work; nothing to do."""

    waits = False

    def __init__(self, line: Line) -> None:
        self.line, self.count = line, line.clock.get(line.id, 0)

    def run(self, machine: Machine) -> None:
        """Marks an order only."""


class Sleep:
    """`torch.cuda._sleep`: everything behind it waits."""

    waits = True

    def __init__(self, line: Line) -> None:
        self.line, self.count = line, line.tick()

    def run(self, machine: Machine) -> None:
        """Time passes."""


_CURRENT: list[Machine] = []


def current() -> Machine:
    """The machine that is installed.

    Raises:
        RuntimeError: none is.
    """
    if not _CURRENT:
        raise RuntimeError("no emulated device is installed")
    return _CURRENT[-1]


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """For what the program does not do itself: no dispatch mode sees it, autograd does not follow it, and tensors that
    were made in inference mode may be changed."""
    with _disable_current_modes(), torch.inference_mode():
        yield


def off() -> contextlib.AbstractContextManager[Any]:
    """No dispatch mode sees what happens inside."""
    return _disable_current_modes()
