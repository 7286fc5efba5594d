"""Sees the calls of a real capture, as cheaply as Python can.

A capture records a call in about ten microseconds; to see it must not take as long. A function mode sees what Python
calls of torch, and costs a third of a dispatch mode, for nothing is parsed again on the way down. What it does not see
is watched call by call in dispatch: the backward pass, which C++ code runs, and captures of programs that use
`torch.compile`, which would compile anew under a function mode.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from graphlint.runtime.cuda.calls import PARTS, UNSEEN, Calls, address_of, in_place, is_part
from graphlint.runtime.watch.journal import Activation

Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
#: The type of `Tensor.shape.__get__` and its like: attributes launch nothing.
_ATTRIBUTE: Any = type(vars(torch._C.TensorBase)["shape"].__get__)
#: Arguments that hold no tensor.
_PLAIN = frozenset([int, float, bool, str, type(None), slice, type(Ellipsis), torch.dtype, torch.device, torch.Size])
_ref = weakref.ref
_BACKWARD = frozenset(["backward", "grad"])
_stack: Any = torch._C  # its functions for the stack of function modes have no types


class Functions(TorchFunctionMode):
    """Notes what Python calls of torch. What the noting itself cannot look into is left out, and the call goes on."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self.calls = calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # `Calls.meet` and `Calls.came` written out for what most calls have: to call them costs as much again
        calls = self.calls
        if func.__class__ is _ATTRIBUTE or calls.dispatched:
            return func(*args, **kwargs) if kwargs else func(*args)
        name = getattr(func, "__name__", "")
        if name in _BACKWARD:
            with dispatched(calls):
                return func(*args, **kwargs) if kwargs else func(*args)
        known = calls.known
        given, first = None, 0
        try:
            for value in args:
                if value.__class__ is Tensor or value.__class__ is _Parameter:
                    address = address_of(value)
                    if given is None:
                        given, first = value, address
                    if address not in known:
                        calls.first(value)
                elif value.__class__ not in _PLAIN:
                    calls.meet((value,))
            if kwargs:
                calls.meet(kwargs.values())
        except UNSEEN:
            pass
        out = func(*args, **kwargs) if kwargs else func(*args)
        try:
            if out.__class__ is Tensor:
                address = address_of(out)
                if address in calls.made:
                    calls.made[address] = _ref(out)
                elif address not in known:
                    calls.result(out, address)
                if address == first:
                    if out is not given or not in_place(name):
                        return out  # a view
                elif name in PARTS and is_part(out, given):
                    return out
                if calls.stack:
                    frame = calls.stack[-1].frame
                    calls.log.append((name, frame.f_code, frame.f_lasti))
                    return out
                calls.launched(name)
            else:
                calls.came(name, args, out)
        except UNSEEN:
            pass
        return out


class Dispatched(TorchDispatchMode):
    """Notes every aten call, those of autograd's own threads included."""

    def __init__(self, calls: Calls) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls = calls

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        calls = self.calls
        with contextlib.suppress(*UNSEEN):
            calls.meet(args)
            if kwargs:
                calls.meet(kwargs.values())
        out = func(*args, **kwargs) if kwargs else func(*args)
        with contextlib.suppress(*UNSEEN):
            calls.came(func._schema.name.removeprefix("aten::"), args, out)
        return out


@contextlib.contextmanager
def dispatched(calls: Calls) -> Iterator[None]:
    """Inside, each aten call is noted."""
    calls.dispatched += 1
    try:
        with Dispatched(calls):
            yield
    finally:
        calls.dispatched -= 1


def compiles() -> bool:
    """Whether the program uses `torch.compile`."""
    module = sys.modules.get("torch._dynamo.eval_frame")
    if module is None:
        return False
    backends = getattr(module, "cached_backends", None)
    # `torch._dynamo.disable` leaves None there
    return backends is None or any(callable(backend) for backend in list(backends.values()))


class Watch:
    """Has the calls of one capture noted from `begin` to `end`, which may stand in any order with other modes."""

    def __init__(self, stack: list[Activation]) -> None:
        self.calls = Calls(stack)
        self._mode: Functions | Dispatched = Dispatched(self.calls) if compiles() else Functions(self.calls)
        self._asked = torch.overrides.has_torch_function

    def begin(self) -> None:
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        if isinstance(self._mode, Functions):
            torch.overrides.has_torch_function = self._without  # type: ignore[assignment]

    def end(self) -> None:
        if isinstance(self._mode, Dispatched):
            self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            return
        torch.overrides.has_torch_function = self._asked
        _take_out(self._mode)
        self.calls.dispatched += 1  # where another thread ends the capture, the mode stays, and notes nothing

    def _without(self, tensors: Any) -> bool:
        """What torch's modules ask before they take their fast path, which the watching must not change."""
        above = _take_out(self._mode)
        try:
            return bool(self._asked(tensors))
        finally:
            if above is not None:
                for _ in above:
                    _stack._pop_torch_function_stack()
                for mode in (self._mode, *above):
                    _stack._push_on_torch_function_stack(mode)


def _take_out(mode: Any) -> list[Any] | None:
    """Takes a function mode out of this thread's stack; returns those above it, which stay, None if it is not there."""
    above: list[Any] = []
    found = False
    while _stack._len_torch_function_stack() and not found:
        top = _stack._pop_torch_function_stack()
        found = top is mode
        if not found:
            above.insert(0, top)
    for one in above:
        _stack._push_on_torch_function_stack(one)
    return above if found else None
