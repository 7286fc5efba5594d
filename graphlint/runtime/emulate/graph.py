"""Capture and replay: a capture records calls without their effect, a replay runs them into the same addresses."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.arena import EAGER, Pool, PoolId
from graphlint.runtime.emulate.machine import Machine, aside, current
from graphlint.runtime.emulate.streams import Line, Stream, StreamContext, merge

_numbers = itertools.count(1)
_handles = itertools.count(1)


class Capture:
    """A capture that is open."""

    graph: Any = None

    def __init__(self, machine: Machine, number: int, line: Line, pool: PoolId, mode: str, kind: str) -> None:
        self.machine, self.number, self.origin, self.pool, self.mode, self.kind = (
            machine,
            number,
            line,
            pool,
            mode,
            kind,
        )
        self.members: set[Line] = set()
        self.calls: list[Any] = []
        self.invalid = False
        self.held = self.peak = 0
        self.begun = machine.order
        self.thread = threading.get_ident()
        self.own: set[int] = set()
        self.undo: dict[int, bytes] = {}
        self.reads: dict[int, events.Static] = {}
        self.makes: dict[int, events.Static] = {}
        """What lies at an address that the capture read from outside, or that it made."""
        self.generators: list[Any] = []
        self.join(line)

    def join(self, line: Line) -> None:
        line.capture, line.worked = self, 0
        self.members.add(line)

    def remember(self, tensor: torch.Tensor) -> None:
        """Keeps the bytes of a block that captured work is about to change, to put them back."""
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        if start not in self.undo and start not in self.own:
            self.undo[start] = ctypes.string_at(start, storage.nbytes())

    def close(self) -> None:
        """Takes the effect of the captured work back: nothing has run."""
        self.graph = None  # a thread that has just asked for the open capture must not be the last to hold its graph
        for start, content in self.undo.items():
            ctypes.memmove(start, content, len(content))
        if self.machine.fake:
            for line in self.members:
                line.capture = None
            return
        with aside():
            for call in self.calls:
                for _, made in call.made:
                    if made.is_floating_point() or made.is_complex():
                        made.fill_(float("nan"))
                    else:
                        made.zero_()
        for line in self.members:
            line.capture = None

    @property
    def launched(self) -> int:
        return len(self.calls)

    @property
    def unjoined(self) -> list[Line]:
        return [m for m in self.members if m is not self.origin and m.worked > self.origin.clock.get(m.id, 0)]


class Recording:
    """What one capture left: its calls, and the memory that they touch. Watchers are given it, under a number of its
    own; a graph that is reset lets go of it, and one that is captured again gets another."""

    def __init__(self, machine: Machine, capture: Capture) -> None:
        self.machine, self.number, self.kind, self.pool = machine, capture.number, capture.kind, capture.pool
        self.calls = capture.calls
        self.replays = 0
        ranges = {
            (storage := ghost.untyped_storage()).data_ptr(): storage.nbytes()
            for call in self.calls
            for ghost in call.sources
        }
        self.inputs = set(ranges) - capture.own
        self.made = capture.own
        self.span = (capture.begun, machine.order)
        self.asynchronous = any(
            c.name == "graphlint::sleep" or (c.name == "aten::copy_" and c.args and not machine.holds(c.args[0]))
            for c in self.calls
        )

    def run(self) -> None:
        """Does the work, now."""
        machine = self.machine
        if any(not machine.arena.mapped(start) for start in self.inputs):
            machine.broken = texts.ILLEGAL_ACCESS
            machine.note("illegal-access", self.number)
            return
        outer = machine.version
        with aside():
            for call in self.calls if not machine.fake else ():
                call.run(machine)
        machine.version = outer


def _alone(method: Callable[..., Any]) -> Callable[..., Any]:
    """Calls of other threads wait until the method is done."""

    @functools.wraps(method)
    def held(self: CUDAGraph, *args: Any, **kwargs: Any) -> Any:
        with self.machine.lock:
            return method(self, *args, **kwargs)

    return held


class CUDAGraph:
    """Stands for torch.cuda.CUDAGraph. `kind` says what makes it."""

    kind = "graph"

    def __init__(self, keep_graph: bool = False) -> None:
        machine = current()
        self.machine, self.keep_graph = machine, keep_graph
        self.number = 0
        """Of its latest capture; 0 before the first."""
        self.recording: Recording | None = None
        self._pool: PoolId | None = None
        self.kind = type(self).kind
        self.check_input_liveness = False
        self.generators: list[Any] = []
        machine.graphs.add(self)

    @_alone
    def capture_begin(
        self, pool: Any = None, capture_error_mode: str = "global", check_input_liveness: bool = False
    ) -> None:
        machine = self.machine
        line = machine.current_stream().line
        if self.recording is not None:
            machine.refuse("recapture", "capture_begin", texts.OWNS_GRAPH)
        if machine.capture is not None:
            machine.refuse("nested", "capture_begin", texts.NOT_PERMITTED)
        if line.id == 0:
            machine.refuse("recapture", "capture_begin", texts.DEFAULT_STREAM)
        handle = getattr(pool, "id", pool)
        identity: PoolId = tuple(handle) if handle is not None else (next(_handles), 0)
        known = machine.arena.pools.get(identity)
        if known is not None and known.users == 0 and known.segments:
            machine.refuse("pool", "capture_begin", texts.RETIRED_POOL)
        shared = machine.arena.pools.setdefault(identity, Pool(identity))
        shared.users += 1
        self._pool, self.number = identity, next(_numbers)
        self.check_input_liveness = check_input_liveness
        machine.log(
            events.CaptureBegin,
            graph=self.number,
            kind=self.kind,
            mode=capture_error_mode,
            stream=line.id,
            pool=identity,
            pool_given=handle is not None,
        )
        machine.capture = Capture(machine, self.number, line, identity, capture_error_mode, self.kind)
        machine.capture.graph = self
        for watcher in machine.on_begin:
            watcher(self.number)

    @_alone
    def capture_end(self) -> None:
        machine, capture = self.machine, self.machine.capture
        if capture is None or capture.graph is not self:
            raise RuntimeError(texts.NO_BEGIN)
        machine.capture = None
        unjoined = capture.unjoined
        capture.close()
        line = machine.current_stream().line
        error = None
        if capture.invalid:
            error = texts.INVALIDATED
        elif unjoined and not machine.survey:
            error = texts.UNJOINED
        elif line is not capture.origin:
            error = "Capture must end on the same stream it began on."
        if unjoined:
            machine.note("unjoined", self.number, streams=[m.id for m in unjoined])
        pool_bytes = sum(s.size for s in machine.arena.pools[capture.pool].segments)
        machine.log(
            events.CaptureEnd,
            graph=self.number,
            error=error,
            calls=len(capture.calls),
            pool_bytes=pool_bytes,
            peak=capture.peak,
            inputs=tuple(capture.reads.values()),
            outputs=tuple(static for start, static in capture.makes.items() if start in machine.owners),
        )
        if error is not None:
            self._leave_pool()
            for watcher in machine.on_failure:
                watcher(self.number)
            raise texts.cuda_error(error) if error.startswith("CUDA") else RuntimeError(error)
        if not capture.calls:
            warnings.warn(texts.EMPTY_GRAPH, stacklevel=3)
        self.recording = Recording(machine, capture)
        self.instantiated()

    def instantiated(self) -> None:
        """For those who watch: the graph is ready."""
        for watcher in self.machine.on_graph:
            watcher(self.recording)

    @_alone
    def replay(self) -> None:
        machine = self.machine
        if machine.capture is not None:
            machine.refuse("replay", "replay", texts.NOT_PERMITTED)
        recording = self.recording
        if recording is None:
            machine.refuse("not-captured", "replay", texts.NOT_CAPTURED, str(self.number))
            return
        machine.check()
        line = machine.current_stream().line
        machine.log(events.Replay, graph=recording.number, stream=line.id, first=recording.replays == 0)
        recording.replays += 1
        if self.check_input_liveness:
            dead = [start for start in recording.inputs if start not in machine.owners]
            if dead:
                raise RuntimeError(f"CUDA graph replay detected {len(dead)} dead tensor(s).")
        for watcher in machine.on_replay:
            watcher(recording)
        line.tick()
        machine.counts[line.id] = line.clock[line.id]
        if machine.behind_pending(line) or recording.asynchronous:
            machine.pending.append(Launch(recording, line))
        else:
            recording.run()
        for watcher in machine.after_replay:
            watcher(recording)

    @_alone
    def reset(self) -> None:
        if self.recording is not None:
            self.machine.note("reset", self.number)
            self._leave_pool()
        self.recording = None

    def _leave_pool(self) -> None:
        pool = self.machine.arena.pools.get(self._pool) if self._pool is not None else None
        if pool is not None and pool.id != EAGER:
            pool.users -= 1
        self._pool = None

    def pool(self) -> PoolId:
        if self._pool is None:
            raise RuntimeError(texts.NO_POOL)
        return self._pool

    def pools(self) -> list[PoolId]:
        return [self.pool()]

    def register_generator_state(self, generator: Any) -> None:
        self.generators.append(generator)

    def debug_dump(self, path: str) -> None:
        """Accepted; there is no driver to dump from."""

    enable_debug_mode = instantiate = lambda self: None

    def __del__(self) -> None:
        machine = getattr(self, "machine", None)
        if machine is None or machine.closing:
            return
        if self.recording is not None:
            capture = machine.capture
            if capture is not None and capture.graph is not self and capture.mode != "relaxed":
                capture.invalid = True
                machine.log(
                    events.Refusal,
                    graph=capture.number,
                    kind="graph-freed",
                    how="__del__",
                    text=texts.NOT_PERMITTED,
                )
            self._leave_pool()
            self.recording = None


class Launch:
    """A replay that waits behind earlier work."""

    waits = True

    def __init__(self, recording: Recording, line: Line) -> None:
        self.recording, self.line, self.count = recording, line, line.clock.get(line.id, 0)

    def run(self, machine: Machine) -> None:
        self.recording.run()


class graph:
    """Stands for torch.cuda.graph. Like torch's own, it leaves the stream as it is when the capture's end fails."""

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if stream is None and graph.default_capture_stream is None:
            graph.default_capture_stream = Stream()
        self.cuda_graph, self.pool, self.mode, self.liveness = (
            cuda_graph,
            pool,
            capture_error_mode,
            check_input_liveness,
        )
        self.capture_stream = stream if stream is not None else graph.default_capture_stream
        self.stream_ctx = StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        machine = current()
        torch.cuda.synchronize()
        machine.empty_cache()
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.mode, self.liveness)

    def __exit__(self, *args: object) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*args)


def new_handle() -> PoolId:
    return (0, next(_handles))


def graph_pool_handle() -> PoolId:
    handle = new_handle()
    current().note("pool-handle", handle=handle)
    return handle


class AcceleratorGraph:
    """Stands for torch.accelerator.Graph: a context manager that does not choose a stream."""

    def __init__(self, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default") -> None:
        self.inner = CUDAGraph(keep_graph)
        self._handle = pool
        self.mode = "global" if capture_error_mode == "default" else capture_error_mode

    def capture_begin(self) -> None:
        self.inner.capture_begin(self._handle, self.mode)

    def __enter__(self) -> AcceleratorGraph:
        torch.cuda.synchronize()
        self.capture_begin()
        return self

    def __exit__(self, *exc: object) -> None:
        self.inner.capture_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


__all__ = ["AcceleratorGraph", "CUDAGraph", "Capture", "frames", "graph", "graph_pool_handle", "merge"]
