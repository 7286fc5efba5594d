"""Models that do not fit: tensors without values, on FakeTensor over the CPU device.

Shapes, dtypes, storages and the order of writes, replays and reads are as in a real run; values are not. What the host
reads is answered by a stand-in, so a run lists all of its syncs. Silent faults are judged by identity and order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from graphlint.runtime import events
from graphlint.runtime.emulate import refusals, rng
from graphlint.runtime.emulate.dispatch import written
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.record import flat, tensors_in
from graphlint.runtime.emulate.storages import place_at, real_storage, storage_of

Tensor = torch.Tensor
aten = torch.ops.aten
_RANDOM_IN_PLACE = frozenset(
    f"aten::{n}" for n in ("uniform_", "normal_", "bernoulli_", "random_", "exponential_", "log_normal_")
)
#: How often a line that asks for a truth value is told yes before it is told no: loops end.
PATIENCE = 2


class FakeCall:
    """A captured call; there is nothing to run."""

    waits = True

    def __init__(self, machine: Machine, name: str, args: Any, held: list[Tensor], made: list[Tensor]) -> None:
        self.name, self.sources, self.made = name, [Spot(storage_of(t)) for t in held], ()
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}
        del machine, args, made

    def run(self, machine: Machine) -> None:
        """Values do not exist."""


class Spot:
    """Where an input lies, and how long it is; keeps nothing alive."""

    def __init__(self, storage: Any) -> None:
        self.start, self.size = int(storage.data_ptr()), int(storage.nbytes())

    def untyped_storage(self) -> Spot:
        return self

    def data_ptr(self) -> int:
        return self.start

    def nbytes(self) -> int:
        return self.size


class FakeMachine(Machine):
    """A device that has addresses and no memory."""

    fake = True

    def __init__(self, version: tuple[int, int] = (2, 11)) -> None:
        super().__init__(version, survey=True)
        self.answers: dict[Any, int] = {}

    def adopt(self, tensor: Tensor) -> None:
        """Gives a fresh tensor an address on the device."""
        storage = real_storage(tensor)
        block = self.allocate(int(storage.nbytes()))
        place_at(storage, block.start)
        self._own(block, storage, "call")

    def ghost(self, tensor: Tensor) -> Tensor:
        return tensor.detach()

    def stand_in(self, tensor: Tensor) -> Any:
        """What a read of the host is answered."""
        from graphlint.runtime import frames

        if tensor.dtype is torch.bool:
            sites = frames.user_sites(1)
            seen = self.answers[sites] = self.answers.get(sites, 0) + 1
            return seen <= PATIENCE
        return 1.0 if tensor.dtype.is_floating_point else 1


class FakeDeviceMode(TorchDispatchMode):
    """Stands above FakeTensorMode: decides what lies on the device, notes what a capture refuses."""

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.machine = machine

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        machine = self.machine
        name = func._schema.name
        given = tensors_in(args, kwargs)
        held = [t for t in given if machine.holds(t)]
        if not held and machine.target is None:
            return self._answer(func, name, args, kwargs, given)
        line = machine.current_stream().line
        capture = line.capture
        refusals.check(machine, func, name, args, kwargs, given, held)
        if machine.target == "cpu" or (name == "aten::copy_" and given and given[0] is not (held[0] if held else None)):
            return self._answer(func, name, args, kwargs, given)
        changes = written(func, args, kwargs)
        _, args, kwargs = rng.prepare(machine, func, name, args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
        out = self._answer(func, name, args, kwargs, given)
        keys = {real_storage(t)._cdata for t in given}
        fresh: set[int] = set()
        for t in flat(out):
            key = real_storage(t)._cdata
            if key not in keys:
                keys.add(key)
                machine.adopt(t)
                fresh.add(storage_of(t).data_ptr())
        machine.counts[line.id] = line.tick()
        made = [t for t in flat(out) if storage_of(t).data_ptr() in fresh]
        if capture is not None:
            if fresh or changes:
                capture.calls.append(FakeCall(machine, name, args, held, made))
            machine.log(
                events.Call,
                graph=capture.number,
                name=name,
                scalars=tuple(v for v in args if isinstance(v, (bool, int, float))),
                stream=line.id,
            )
        machine.arguments = args
        for watcher in machine.on_call:
            watcher(func, name, held, changes, made, line.id)
        machine.arguments = ()
        return out

    def _answer(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor]) -> Any:
        machine = self.machine
        if name == "aten::_local_scalar_dense":
            return machine.stand_in(args[0])
        if name == "aten::equal":
            return True
        if name in _RANDOM_IN_PLACE:
            return args[0]
        if name in refusals.DYNAMIC or name in refusals.DYNAMIC_COPY:
            return _some(name, args)
        if name in ("aten::index", "aten::index_put_", "aten::_index_put_impl_") and any(
            i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]
        ):
            if name != "aten::index":
                return args[0]
            masks = sum(i.dim() for i in args[1] if i is not None)
            return args[0].new_empty((1, *args[0].shape[masks:]))
        outer, machine.inside_fake = machine.inside_fake, True
        try:
            return func(*args, **kwargs)
        finally:
            machine.inside_fake = outer


def patches(machine: FakeMachine) -> dict[str, Any]:
    """The attributes of FakeTensor to put in place: what a program sees of its device."""
    own = vars(FakeTensor)["device"]

    def device(self: Any) -> torch.device:
        where: torch.device = own.fget(self)
        return torch.device("cuda", 0) if not machine.inside_fake and machine.holds(self) else where

    return {"device": property(device)}


def apply(module: Any, function: Any, recurse: bool = True) -> Any:
    """`Module._apply` without swapping tensors, which fakes do not allow."""
    if recurse:
        for child in module.children():
            apply(child, function)
    with torch.no_grad():
        for parameter in module._parameters.values():
            if parameter is not None:
                parameter.data = function(parameter.detach())
                if parameter.grad is not None:
                    parameter.grad = function(parameter.grad)
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = function(buffer)
    return module


def _some(name: str, args: Any) -> Any:
    """One element, where only the data says how many there are."""
    first = args[0]
    if name in ("aten::nonzero", "aten::argwhere"):
        return first.new_empty((1, first.dim()), dtype=torch.int64)
    if name.startswith(("aten::_unique", "aten::unique")):
        index = first.new_empty(first.shape, dtype=torch.int64)
        return first.new_empty((1,)), index, first.new_empty((1,), dtype=torch.int64)
    return first.new_empty((1,))
