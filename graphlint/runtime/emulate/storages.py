"""The storage of a tensor, also where there is none: a FakeTensor's stands at an address that was given to it."""

from __future__ import annotations

import weakref
from typing import Any

import torch

_real: Any = torch._C.TensorBase.untyped_storage
#: Addresses of fake storages, by the storage; empty unless tensors are fake.
_ADDRESSES: dict[int, int] = {}
#: Where host memory that does not exist is said to lie.
_NOWHERE = 1 << 60
_fake = False


class FakeStorage:
    """What is asked of a storage, for one without memory."""

    __slots__ = ("_cdata", "_real")

    def __init__(self, real: Any) -> None:
        self._real, self._cdata = real, real._cdata

    def data_ptr(self) -> int:
        return int(_ADDRESSES.get(self._cdata, _NOWHERE + self._cdata))

    def nbytes(self) -> int:
        return int(self._real.nbytes())


def storage_of(tensor: Any) -> Any:
    """The tensor's storage: `data_ptr()`, `nbytes()`, `_cdata`; a weak reference to it dies with the last tensor."""
    storage = _real(tensor)
    return FakeStorage(storage) if _fake and storage.device.type == "meta" else storage


def real_storage(tensor: Any) -> Any:
    return _real(tensor)


def use_fake(on: bool) -> None:
    """From now on tensors may be without memory."""
    global _fake
    _fake = on
    _ADDRESSES.clear()


def place_at(storage: Any, address: int) -> None:
    """Says that a fake storage lies at `address`."""
    key = storage._cdata
    _ADDRESSES[key] = address
    weakref.finalize(storage, _ADDRESSES.pop, key, None)
