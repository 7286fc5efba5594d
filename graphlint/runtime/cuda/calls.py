"""What a real capture calls, kept so that it costs next to nothing while the capture runs.

Of each call only addresses are compared with those that are known, and the place of the user's code that makes it is
put down; shapes, lines and events are made of it when the run is over. Nothing that is kept holds a tensor, for that
would change what the allocator hands on inside the capture.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate.storages import storage_of
from graphlint.runtime.watch.journal import Activation

Tensor = torch.Tensor
#: Where a tensor's first element lies.
address_of: Any = torch._C.TensorBase.data_ptr
#: Raised by tensors without an address: sparse ones, those of transforms and of other libraries.
UNSEEN = (RuntimeError, NotImplementedError, TypeError, AttributeError)
#: They may give back a part that begins elsewhere than what they were given, and launch nothing then.
PARTS = frozenset(
    (
        *("__getitem__", "as_strided", "chunk", "diagonal", "dsplit", "getitem", "hsplit", "imag", "narrow", "select"),
        *("slice", "split", "split_with_sizes", "tensor_split", "unbind", "unfold", "unsafe_chunk", "vsplit"),
    )
)


def in_place(name: str) -> bool:
    """Whether a function that returns its own argument has changed it."""
    return (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")


def is_part(out: Any, given: Any) -> bool:
    """Whether two tensors lie in one storage."""
    return isinstance(given, Tensor) and bool(storage_of(out)._cdata == storage_of(given)._cdata)


class Calls:
    """The calls of one capture. `stack` is the journal's: the user's functions that are under way."""

    def __init__(self, stack: list[Activation]) -> None:
        self.stack = stack
        self.log: list[tuple[str, CodeType | None, int]] = []
        """Those that launch something, each with the user's code that makes it, and the instruction there."""
        self.reads: dict[int, tuple[Any, Any, int, bool]] = {}
        """By where the storage starts: shape, dtype, bytes, and whether it is a parameter."""
        self.made: dict[int, weakref.ref[Any]] = {}
        """By address, the last tensor that the capture made there."""
        self.own: set[int] = set()
        """Where storages start that the capture made."""
        self.known = {0}
        """Addresses that need no second look."""
        self.dispatched = 0
        """How many dispatch modes note the calls."""

    # ------------------------------------------------------------ before a call
    def meet(self, values: Any) -> None:
        """Arguments, lists looked into."""
        known = self.known
        for value in values:
            if isinstance(value, Tensor):
                if address_of(value) not in known:
                    self.first(value)
            elif value.__class__ is list or value.__class__ is tuple:
                self.meet(value)

    def first(self, t: Tensor) -> None:
        """An argument at an address that was not seen yet."""
        self.known.add(address_of(t))
        if not t.is_cuda:
            return
        storage = storage_of(t)
        start = storage.data_ptr()
        if start not in self.own and start not in self.reads:
            self.reads[start] = t.shape, t.dtype, storage.nbytes(), isinstance(t, torch.nn.Parameter)

    # ------------------------------------------------------------ after it
    def came(self, name: str, given: Any, out: Any) -> None:
        """`out` came back; `given` is what was passed by place."""
        if isinstance(out, Tensor):
            found = [out]
        elif isinstance(out, (tuple, list)):
            found = [one for one in out if isinstance(one, Tensor)]
        else:
            # nothing came that would tell whether something was launched
            if out is None and (name == "__setitem__" or name.startswith("_foreach_") or name.endswith("_")):
                self.launched(name)
            return
        for one in found:
            self.result(one, address_of(one))
        if found and self.launches(name, given, found[0]):
            self.launched(name)

    def result(self, t: Tensor, address: int) -> None:
        if address in self.made:
            self.made[address] = weakref.ref(t)
        elif address not in self.known:
            self.known.add(address)
            start = storage_of(t).data_ptr()
            if t.is_cuda and start not in self.reads:
                self.own.add(start)
                self.made[address] = weakref.ref(t)

    @staticmethod
    def launches(name: str, given: Any, out: Tensor) -> bool:
        """Whether a call that gave `out` back did more than hand on what it got, or a view of it."""
        for one in given:
            if isinstance(one, Tensor):
                return in_place(name) if one is out else not is_part(out, one)
        return True

    def launched(self, name: str) -> None:
        frame: Any = self.stack[-1].frame if self.stack else frames.user_frame()
        self.log.append((name, frame.f_code, frame.f_lasti) if frame is not None else (name, None, 0))

    # ------------------------------------------------------------ when the capture, or the run, is over
    def outputs(self) -> tuple[events.Static, ...]:
        """What the capture made and the program holds, now."""
        found: dict[int, events.Static] = {}
        for reference in self.made.values():
            t = reference()
            if t is not None:
                found[storage_of(t).data_ptr()] = events.Static.of(t)
        return tuple(found.values())

    def inputs(self, own: Sequence[tuple[int, int]] = ()) -> tuple[events.Static, ...]:
        """What the capture read and had not made. `own`: where memory of its own lies, as starts and sizes."""
        return tuple(
            events.Static(tuple(shape), str(dtype).removeprefix("torch."), int(size), parameter)
            for address, (shape, dtype, size, parameter) in self.reads.items()
            if not any(start <= address < start + length for start, length in own)
        )

    def sites(self) -> Iterator[tuple[str, events.Stack]]:
        """The calls that launch something, in order, with their lines."""
        tables: dict[int, list[tuple[int, int, int | None]]] = {}
        for name, code, place in self.log:
            if code is None:
                yield name, ()
                continue
            if id(code) not in tables:
                tables[id(code)] = list(code.co_lines())
            table = tables[id(code)]
            line = table[bisect_right(table, place, key=lambda entry: entry[0]) - 1][2]
            yield name, (frames.Site(code.co_filename, line or code.co_firstlineno, frames.named(code)),)
