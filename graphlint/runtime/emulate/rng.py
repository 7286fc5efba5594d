"""Random numbers on the device: a generator of their own, registered with graphs, fresh at every replay."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine, current

_TAKES: dict[Any, bool] = {}
_default: list[Generator] = []
#: aten calls carry the C++ generator under another Python object; it is found again by address.
_known: weakref.WeakValueDictionary[int, Generator] = weakref.WeakValueDictionary()


class Generator(torch._C.Generator):
    """Stands for torch.Generator: one on the CPU, or one that counts as the GPU's."""

    _device = torch.device("cpu")

    def __new__(cls, device: Any = "cpu") -> Generator:
        made: Generator = super().__new__(cls)
        made._device = torch.device("cuda", 0) if torch.device(device).type == "cuda" else torch.device("cpu")
        _known[made._cdata] = made  # type: ignore[attr-defined]
        return made

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._device

    @property
    def on_device(self) -> bool:
        return self._device.type == "cuda"

    def manual_seed(self, seed: int) -> Generator:
        machine = current()
        if self.on_device and machine.capturing():
            if machine.version <= (2, 10) or seed != self.initial_seed():
                machine.refuse("rng", "manual_seed", texts.RNG_SEED, invalidates=False)
            else:
                machine.note("seeded-alike", machine.capture.number)
                return self
        super().manual_seed(seed)
        return self

    def seed(self) -> int:
        self._refused("seed")
        return super().seed()

    def get_state(self) -> torch.Tensor:
        if current().version <= (2, 10):
            self._refused("current_seed")
        return super().get_state()

    def set_state(self, state: torch.Tensor) -> Generator:
        if current().version <= (2, 10):
            self._refused("set_state")
        super().set_state(state)
        return self

    def get_offset(self) -> int:
        self._refused("get_offset")
        return 0

    def set_offset(self, offset: int) -> Generator:
        self._refused("set_offset")
        return self

    def graphsafe_get_state(self) -> Generator:
        return self

    def graphsafe_set_state(self, state: torch._C.Generator) -> Generator:
        super().set_state(torch._C.Generator.get_state(state))
        return self

    def clone_state(self) -> Generator:
        other = Generator(self._device)
        torch._C.Generator.set_state(other, torch._C.Generator.get_state(self))
        return other

    def _refused(self, call: str) -> None:
        machine = current()
        if self.on_device and machine.capturing():
            machine.refuse("rng", call, texts.RNG_CALL.format(call), invalidates=False)


def default_generator() -> Generator:
    """The device's default generator."""
    if not _default:
        _default.append(Generator("cuda"))
        torch._C.Generator.manual_seed(_default[0], torch.initial_seed())
    return _default[0]


def _takes_generator(func: Any) -> bool:
    known = _TAKES.get(func)
    if known is None:
        known = _TAKES[func] = any(a.name == "generator" for a in func._schema.arguments)
    return known


def _draws(func: Any) -> bool:
    return torch.Tag.nondeterministic_seeded in func.tags


def prepare(
    machine: Machine, func: Any, name: str, args: Any, kwargs: dict[str, Any]
) -> tuple[Any, Any, dict[str, Any]]:
    """Gives a random call the device's generator; refuses one that the capture does not know."""
    if not _draws(func):
        return func, args, kwargs
    capture = machine.current_stream().line.capture
    generator = kwargs.get("generator")
    if generator is not None:
        generator = _known.get(generator._cdata, generator)
    if generator is None and _takes_generator(func):
        if len(args) >= len(func._schema.arguments):
            return func, args, kwargs
        kwargs = {**kwargs, "generator": default_generator()}
    elif (
        isinstance(generator, Generator)
        and generator.on_device
        and generator is not default_generator()
        and capture is not None
        and machine.version < (2, 14)
        and not any(generator is g for g in capture.graph.generators)
    ):
        machine.refuse("rng", "generator", texts.RNG_OFFSET, name, invalidates=False)
    return func, args, kwargs


@contextlib.contextmanager
def state(machine: Machine, func: Any, name: str, kwargs: dict[str, Any]) -> Iterator[None]:
    """For random calls that take no generator: the device's state stands in the CPU's place meanwhile."""
    if not _draws(func) or kwargs.get("generator") is not None:
        yield
        return
    host = torch.default_generator
    outer = torch._C.Generator.get_state(host)
    own = default_generator()
    torch._C.Generator.set_state(host, torch._C.Generator.get_state(own))
    try:
        yield
    finally:
        torch._C.Generator.set_state(own, torch._C.Generator.get_state(host))
        torch._C.Generator.set_state(host, outer)
