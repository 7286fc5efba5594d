"""Memory from outside that a graph sets before it reads it: what stands there before a replay does not matter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.watch.journal import Journal, Watcher

#: They set a tensor, whatever it held.
SETS = frozenset(
    f"aten::{n}"
    for n in [
        "copy_",
        "fill_",
        "zero_",
        "normal_",
        "uniform_",
        "random_",
        "set_",
        "_foreach_zero_",
        "_foreach_copy_",
    ]
)
#: They look at no element.
VIEWS = frozenset(
    f"aten::{n}"
    for n in [
        "view",
        "slice",
        "select",
        "detach",
        "alias",
        "t",
        "transpose",
        "expand",
        "permute",
        "unsqueeze",
        "squeeze",
        "as_strided",
        "_unsafe_view",
        "split",
        "chunk",
        "unbind",
        "narrow",
        "empty_like",
        "zeros_like",
        "ones_like",
        "new_empty",
        "new_zeros",
    ]
)
#: So many separate stretches of a block are kept apart.
MAX_PARTS = 64
Part = tuple[int, int]


class Scratch(Watcher):
    """Follows, of each capture, which bytes it has set, and which memory it read before."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self._set: dict[int, dict[int, list[Part]]] = {}
        self._read: dict[int, set[int]] = {}
        machine.on_call.append(self._call)

    @classmethod
    def of_journal(cls, journal: Journal) -> Scratch:
        """The one that the journal's other watchers share."""
        return next(w for w in journal.watchers if isinstance(w, cls))

    def reads(self, graph: int, address: int) -> bool:
        """Whether a graph takes from a block what stood there before the replay."""
        return address in self._read.get(graph, ())

    def _call(self, func: Any, name: str, held: list[Any], changes: list[Any], fresh: Any, stream: int) -> None:
        capture = self.machine.capture
        if capture is None or not self.machine.capturing() or name in VIEWS:
            return
        number = capture.number
        read, parts = self._read.setdefault(number, set()), self._set.setdefault(number, {})
        sets = name in SETS or any(a.is_out for a in func._schema.arguments)
        only = list(changes) if sets else []
        for t in held:
            place = next((i for i, c in enumerate(only) if c is t), None)
            if place is not None:
                only.pop(place)
                continue
            address = _storage_of(t).data_ptr()
            if address in capture.own or address in read:
                continue
            if t.numel() and not _covered(parts.get(address, ()), _bytes(t)):
                read.add(address)
        for t in changes if sets else ():
            if t.numel() and t.is_contiguous():
                known = parts.setdefault(_storage_of(t).data_ptr(), [])
                if len(known) < MAX_PARTS:
                    known[:] = _joined([*known, _bytes(t)])


def _bytes(t: torch.Tensor) -> Part:
    """The first byte of a view and the one after its last."""
    size = t.element_size()
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    start = t.storage_offset() * size
    return int(start), int(start + (last + 1) * size)


def _covered(parts: Any, wanted: Part) -> bool:
    return any(first <= wanted[0] and wanted[1] <= last for first, last in parts)


def _joined(parts: list[Part]) -> Iterator[Part]:
    first, last = -1, -1
    for start, end in sorted(parts):
        if start > last:
            if last >= 0:
                yield first, last
            first, last = start, end
        else:
            last = max(last, end)
    if last >= 0:
        yield first, last
