"""Models that do not fit: tensors without values.

They are real CPU tensors over addresses that nobody touches: the operating system gives a page its memory when it is
first written, and here nothing is. What a call makes is told from its shapes alone, by torch's own meta kernels, once
for each kind of call. Shapes, dtypes, storages, autograd and the order of writes, replays and reads are as in a real
run; values are not: what the host reads is answered by a stand-in, so a run lists all of its syncs. Silent faults are
judged by identity and order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate import refusals
from graphlint.runtime.emulate.dispatch import DeviceMode, written
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.record import flat, tensors_in

Tensor = torch.Tensor
aten = torch.ops.aten
_storage: Any = torch._C.TensorBase.untyped_storage
_META, _CPU = torch.device("meta"), torch.device("cpu")
_raw_device = torch._C.TensorBase.device.__get__
#: How often a line that asks for a truth value is told yes before it is told no: loops end.
PATIENCE = 2
#: Host memory up to here is filled with zeros; more would be memory in earnest.
SMALL = 1 << 20
#: They change what a tensor is, not what it holds, or give it another name: cheap, and right as they are.
_AS_THEY_ARE = frozenset(
    f"aten::{n}"
    for n in [
        "_unsafe_view",
        "_reshape_alias",
        "lift_fresh",
        "set_",
        "resize_",
        "as_strided_",
        "squeeze_",
        "unsqueeze_",
        "transpose_",
        "t_",
        "detach_",
        "is_same_size",
        "_has_compatible_shallow_copy_type",
        "record_stream",
    ]
)
_MASKED = frozenset({"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"})


class FakeCall:
    """A captured call; there is nothing to run. `sources` say where its inputs lie, and keep nothing alive."""

    __slots__ = ("name", "sources", "writes")
    waits = True
    args: tuple[Any, ...] = ()
    made: tuple[Any, ...] = ()

    def __init__(self, name: str, held: list[Tensor], changes: list[Tensor]) -> None:
        self.name, self.sources = name, [Spot(t) for t in held]
        self.writes = {int(_storage(t).data_ptr()) for t in changes}

    def run(self, machine: Machine) -> None:
        """Values do not exist."""


class Spot:
    """Where a tensor lies: what is asked of one that a captured call read."""

    __slots__ = ("_offset", "_size", "_strides", "dtype", "shape", "start")

    def __init__(self, tensor: Tensor) -> None:
        storage = _storage(tensor)
        self.start, self._size = int(storage.data_ptr()), int(storage.nbytes())
        self.shape, self._strides, self.dtype = tensor.shape, tensor.stride(), tensor.dtype
        self._offset = int(tensor.storage_offset())

    def size(self) -> torch.Size:
        return self.shape

    def stride(self) -> tuple[int, ...]:
        return self._strides

    def storage_offset(self) -> int:
        return self._offset

    def numel(self) -> int:
        return int(self.shape.numel())

    def element_size(self) -> int:
        return self.dtype.itemsize

    def untyped_storage(self) -> Spot:
        return self

    def data_ptr(self) -> int:
        return self.start

    def nbytes(self) -> int:
        return int(self._size)


class FakeMachine(Machine):
    """A device that has addresses and no memory."""

    fake = True

    def __init__(self, version: tuple[int, int] = (2, 11)) -> None:
        super().__init__(version, survey=True)
        self.answers: dict[Any, int] = {}

    def place(self, value: Tensor, why: str) -> Tensor:
        return self.over(self.storage(int(_storage(value).nbytes()), why), value)

    def stand_in(self, tensor: Tensor) -> Any:
        """What a read of the host is answered."""
        if tensor.dtype is torch.bool:
            sites = frames.user_sites(1)
            seen = self.answers[sites] = self.answers.get(sites, 0) + 1
            return seen <= PATIENCE
        return 1.0 if tensor.dtype.is_floating_point else 1


#: What a call gives: a shape with its strides, dtype and bytes, or a number, or a list of these.
Form = tuple[torch.Size, tuple[int, ...], torch.dtype, int]


class FakeDeviceMode(DeviceMode):
    """Tells from shapes what a call makes, and makes it without computing."""

    machine: FakeMachine

    def __init__(self, machine: FakeMachine) -> None:
        super().__init__(machine)
        self.kinds: dict[Any, Callable[..., Any] | None] = {}
        self.forms: dict[Any, Any] = {}

    def _read(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        return True if name == "aten::equal" else self.machine.stand_in(args[0])

    def _record(
        self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, fresh: set[int], line: Any, count: int
    ) -> Any:
        held = [t for t in tensors_in(args, kwargs) if self.machine.holds(t)]
        return FakeCall(func._schema.name, held, written(func, args, kwargs))

    def _to_host(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], held: list[Tensor], line: Any) -> Any:
        if name == "aten::copy_":
            return args[0]
        return _tree(self._form(func, args, kwargs), _on_host)

    def _do(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor], fresh: set[int]) -> Any:
        if "generator" in kwargs:
            kwargs = {k: v for k, v in kwargs.items() if k != "generator"}
        if name in refusals.DYNAMIC or name in refusals.DYNAMIC_COPY:
            return self._place(_some(name, args), given, fresh)
        if name in _MASKED and any(i is not None and i.dtype in (torch.bool, torch.uint8) for i in args[1]):
            if name != "aten::index":
                return args[0] if name != "aten::index_put" else self._place(aten.empty_like(args[0]), given, fresh)
            masks = sum(i.dim() for i in args[1] if i is not None)
            return self._place(args[0].new_empty((1, *args[0].shape[masks:])), given, fresh)
        known = self.kinds.get(func)
        if known is None:
            known = self.kinds[func] = _kind(func)
        return known(self, func, args, kwargs, given, fresh)

    # ------------------------------------------------------------ the kinds of calls
    def _as_it_is(self, func: Any, args: Any, kwargs: dict[str, Any], given: Any, fresh: set[int]) -> Any:
        return self._place(func(*args, **kwargs), given, fresh)

    def _in_place(self, func: Any, args: Any, kwargs: dict[str, Any], given: Any, fresh: set[int]) -> Any:
        self._form(func, args, kwargs)  # the meta kernel raises where shapes do not fit
        returns = len(func._schema.returns)
        if not returns:
            return None
        changed = written(func, args, kwargs)
        return changed[0] if returns == 1 and len(changed) == 1 else tuple(changed)

    def _new(self, func: Any, args: Any, kwargs: dict[str, Any], given: Any, fresh: set[int]) -> Any:
        form = self._form(func, args, kwargs)
        if form is None:  # no meta kernel: what the real one makes of zeros has the right shape
            return self._place(func(*args, **kwargs), given, fresh)
        machine = self.machine

        def make(one: Form) -> Tensor:
            storage = machine.storage(one[3], "call")
            fresh.add(int(storage.data_ptr()))
            return _over(storage, one)

        return _tree(form, make)

    def _form(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What the call gives, told by its meta kernel; None if it has none."""
        try:
            key = (func, *map(_key, args), *((k, _key(v)) for k, v in kwargs.items()))
            known = self.forms.get(key, self)
        except TypeError:
            return _form(func, args, kwargs)
        if known is self:
            known = self.forms[key] = _form(func, args, kwargs)
        return known


def _kind(func: Any) -> Callable[..., Any]:
    schema = func._schema
    returns = schema.returns
    if schema.name in _AS_THEY_ARE:
        return FakeDeviceMode._as_it_is
    if not returns or all(r.alias_info is not None and r.alias_info.is_write for r in returns):
        return FakeDeviceMode._in_place
    if any(r.alias_info is not None for r in returns):
        return FakeDeviceMode._as_it_is
    return FakeDeviceMode._new


def _key(value: Any) -> Any:
    """What of an argument decides the form of the result."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(map(_key, value))
    return type(value), value


def _meta(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return aten.empty_strided.default(value.shape, value.stride(), dtype=value.dtype, device=_META)
    if isinstance(value, (list, tuple)):
        return [_meta(v) for v in value]
    return _META if isinstance(value, torch.device) else value


def _form(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    options = {k: _meta(v) for k, v in kwargs.items()}
    if any(a.name == "device" for a in func._schema.arguments) and not tensors_in(args, kwargs):
        options["device"] = _META
    options.pop("pin_memory", None)
    try:
        out = func(*[_meta(a) for a in args], **options)
    except NotImplementedError:
        return None
    return _tree(out, _form_of, torch.Tensor)


def _form_of(t: Tensor) -> Form:
    size = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1 if t.numel() else 0
    return t.shape, t.stride(), t.dtype, size * t.element_size()


def _tree(value: Any, make: Callable[[Any], Any], leaf: Any = None) -> Any:
    """`make` of each leaf; `leaf` is its type, forms if None."""
    if isinstance(value, leaf) if leaf is not None else isinstance(value, tuple) and _is_form(value):
        return make(value)
    if isinstance(value, (list, tuple)):
        made = [_tree(v, make, leaf) for v in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def _is_form(value: tuple[Any, ...]) -> bool:
    return len(value) == 4 and isinstance(value[0], torch.Size)


def _over(storage: Any, form: Form) -> Tensor:
    made: Tensor = aten.empty.memory_format([0], dtype=form[2], device=_CPU)
    return made.set_(storage, 0, form[0], form[1])


def _on_host(form: Form) -> Tensor:
    made: Tensor = aten.empty_strided.default(form[0], form[1], dtype=form[2], device=_CPU)
    return made.zero_() if form[3] <= SMALL else made


def _some(name: str, args: Any) -> Any:
    """One element, where only the data says how many there are."""
    first = args[0]
    if name in ("aten::nonzero", "aten::argwhere"):
        return first.new_empty((1, first.dim()), dtype=torch.int64)
    if name.startswith(("aten::_unique", "aten::unique")):
        index = first.new_empty(first.shape, dtype=torch.int64)
        return first.new_empty((1,)), index, first.new_empty((1,), dtype=torch.int64)
    return first.new_empty((1,))


__all__ = ["FakeCall", "FakeDeviceMode", "FakeMachine", "flat"]
