"""What the runtime witness saw, one record for each event, in order of execution.

Both back ends, the emulator and the real capture, write the same records; judges read nothing else.
`at` is the stack of the user's code, innermost first; `order` counts events over the whole run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime.emulate.storages import storage_of
from graphlint.runtime.frames import Site

Stack = tuple[Site, ...]


@dataclass(slots=True, kw_only=True)
class Event:
    order: int
    at: Stack


@dataclass(slots=True, kw_only=True)
class CaptureBegin(Event):
    """kind: "graph", "graphed-callables", "compile"."""

    graph: int
    kind: str = "graph"
    mode: str = "global"
    stream: int = 0
    pool: tuple[int, int] = (0, 0)
    pool_given: bool = False


@dataclass(frozen=True, slots=True)
class Static:
    """A tensor that a graph reads from outside, or leaves behind. `bytes` are those of its storage."""

    shape: tuple[int, ...]
    dtype: str
    bytes: int
    parameter: bool = False

    @classmethod
    def of(cls, tensor: Any) -> Static:
        storage = storage_of(tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        return cls(tuple(tensor.shape), dtype, int(storage.nbytes()), isinstance(tensor, torch.nn.Parameter))


@dataclass(slots=True, kw_only=True)
class CaptureEnd(Event):
    """`error` is the first line of what the capture failed with, None if it succeeded."""

    graph: int
    error: str | None = None
    calls: int = 0
    pool_bytes: int = 0
    peak: int = 0
    """The most memory of its own that the capture held at once."""
    inputs: tuple[Static, ...] = ()
    outputs: tuple[Static, ...] = ()
    """What the capture made and the program still holds at its end."""


@dataclass(slots=True, kw_only=True)
class Refusal(Event):
    """Something that a capture does not allow. kind: "sync", "bool", "host-copy", "dynamic-shape", "rng",
    "optimizer", "stream", "first-use", "nested", "recapture", "replay", "pool", "graph-freed", "autograd",
    "overwritten".
    `how` is how Python spelled it: "item", "float", "format", "cpu" ...; `detail` names the operator."""

    graph: int | None
    kind: str
    how: str
    text: str
    detail: str = ""
    spelled: str = ""
    """What the user's line did: "bool" for an implicit truth test, else what it called."""
    made_at: Stack = ()
    """Where the autograd node was made that the capture cannot run."""
    through: tuple[str, ...] = ()
    """torch's own Python files between the user's line and the refusal."""
    thread: bool = False
    """Whether another thread than the capture's made the call."""


@dataclass(slots=True, kw_only=True)
class Replay(Event):
    graph: int
    stream: int = 0
    first: bool = False


@dataclass(slots=True, kw_only=True)
class Call(Event):
    """A captured aten call. `reads` and `writes` are addresses of whole blocks; `scalars` are its Python numbers."""

    graph: int
    name: str
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    made: tuple[int, ...] = ()
    scalars: tuple[object, ...] = ()
    stream: int = 0


@dataclass(slots=True, kw_only=True)
class Note(Event):
    """Anything else that a judge needs, by name; `data` depends on it (see the judge that reads it)."""

    name: str
    graph: int | None = None
    data: dict[str, object] = field(default_factory=dict)
