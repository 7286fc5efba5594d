"""The emulated device: a timeline with memory, and what the program has set up on it.

Glossary:
    ghost     a tensor over device memory that keeps nothing alive: what a graph holds of its inputs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.arena import EAGER, Arena, Block, OutOfMemory, PoolId
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.emulate.timeline import Timeline

Tensor = torch.Tensor
_CPU = torch.device("cpu")


class TooLarge(BaseException):
    """The program holds more device memory than values are emulated for."""


class Machine(Timeline):
    """One emulated GPU. `version` is the torch version whose behaviour is followed."""

    def __init__(self, version: tuple[int, int] = (2, 11), survey: bool = False) -> None:
        super().__init__(survey)
        self.version = version
        self.arena = Arena()
        self.arena.may_grow = self._may_grow
        self.streams_past_first_use: set[int] = set()
        """Streams on which library work has run: measured, an eager allocation there was not refused in a capture."""
        self.poisoned: dict[int, tuple[str, events.Stack]] = {}
        """Outputs that a compiled function took back, by their storage; touching one raises."""
        self.stale: dict[int, tuple[weakref.ref[Any], events.Stack]] = {}
        """Outputs of compiled functions whose memory a later call took, by the tensor's id."""
        self.trees: Any = None
        self.libraries: set[tuple[str, bool]] = set()
        self.pinned: dict[int, weakref.ref[Any]] = {}
        self.numbers: dict[int, weakref.ref[Any]] = {}
        self.graphs: weakref.WeakSet[Any] = weakref.WeakSet()
        self.owners: dict[int, weakref.ref[Any]] = {}
        self.births: dict[int, events.Stack] = {}
        self.made: dict[int, int] = {}
        """For each block in use, the order of the event at which it was made."""
        self.on_free: list[Callable[[Block], None]] = []
        self.on_make: list[Callable[[Block, str], None]] = []
        self.on_begin: list[Callable[[int], None]] = []
        """What is told of a capture that begins, by its number."""
        self.on_graph: list[Callable[[Any], None]] = []
        """What is told of the recording that a capture left; the same for its replays."""
        self.on_replay: list[Callable[[Any], None]] = []
        self.on_failure: list[Callable[[int], None]] = []
        self.after_replay: list[Callable[[Any], None]] = []
        self.on_host_write: list[Callable[[list[Tensor]], None]] = []
        self.on_host_read: list[Callable[[list[Tensor]], None]] = []
        self.before_change: list[Callable[[list[Tensor]], None]] = []
        """What is told of tensors that a call outside of captures is about to change."""
        self.on_call: list[Callable[[Any, str, list[Tensor], list[Tensor], list[Tensor], int], None]] = []
        self.autocasts: list[Any] = []
        """Where the open autocast contexts were made, outermost first."""
        self.trace_births = True
        self.most: int | None = None
        """Bytes of device memory up to which values are emulated."""
        self.closing = False
        self.compiled_region: Any = None

    # ---------------------------------------------------------------- memory
    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies in device memory."""
        try:
            return bool(self.arena.base <= _storage_of(tensor).data_ptr() < self.arena.end)
        except (RuntimeError, NotImplementedError):
            return False
        except ValueError:  # a lazy module's parameter: it refuses most questions, and lies somewhere all the same
            with torch._C.DisableTorchFunctionSubclass():
                return bool(self.arena.base <= _storage_of(tensor).data_ptr() < self.arena.end)

    def address(self, tensor: Tensor) -> int:
        """Where the tensor's storage begins."""
        return int(_storage_of(tensor).data_ptr())

    def empty_cache(self) -> None:
        with self.lock:
            self.arena.empty_cache()

    def _may_grow(self, stream: int) -> None:
        capture = self.capture
        if capture is None or capture.mode == "relaxed" or not self.guarded():
            return
        line = self.current_stream().line
        if line.capture is None and line.id not in self.streams_past_first_use:
            self.refuse("stream", "allocation", texts.NOT_PERMITTED)

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
