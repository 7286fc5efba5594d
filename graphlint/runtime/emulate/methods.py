"""torch.Tensor as a program sees it: `.device`, `.cuda()`, `.to()`, reads by the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine, off

Tensor = torch.Tensor
Base = torch._C.TensorBase
CUDA = torch.device("cuda", 0)
_raw_device = Base.device.__get__
_raw_to, _raw_type, _raw_clone = Base.to, Base.type, Base.clone


def is_cuda_device(device: Any) -> bool:
    """Whether `device` as a program spells it ("cuda:0", torch.device, an index) means the GPU."""
    if device is None or isinstance(device, bool):
        return False
    if isinstance(device, int):
        return True
    try:
        return torch.device(device).type == "cuda"
    except (RuntimeError, TypeError):
        return False


def to_device(machine: Machine, tensor: Tensor, dtype: torch.dtype | None = None, quick: bool = False) -> Tensor:
    """A copy in device memory; autograd sees it."""
    with machine.towards("cuda"):
        return _raw_to(tensor, dtype or tensor.dtype, quick, True)


def to_host(machine: Machine, tensor: Tensor, dtype: torch.dtype | None = None, quick: bool = False) -> Tensor:
    """A copy in host memory; without `quick` the host waits for it."""
    if quick and machine.capturing():
        with machine.towards("cpu"):
            landed = machine.pin(torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device="cpu"))
        landed.copy_(tensor.detach(), non_blocking=True)
        return landed
    with machine.towards("cpu"):
        return _raw_to(tensor, dtype or tensor.dtype, quick, True)


def read(machine: Machine, tensor: Tensor, how: str, text: str = texts.NOT_PERMITTED) -> None:
    """The host is about to read `tensor`.

    Raises:
        RuntimeError: inside a capture.
    """
    if machine.capture is not None and (machine.capturing() or machine.capture.mode == "global"):
        machine.refuse("sync", how, text)
    machine.flush(machine.current_stream().line.clock)
    machine.check()


def patches(machine: Machine) -> dict[str, Any]:
    """The attributes of torch.Tensor to put in place."""
    holds = machine.holds

    def device(self: Tensor) -> torch.device:
        return CUDA if holds(self) else _raw_device(self)

    def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        copy = kwargs.pop("copy", False)
        if args and isinstance(args[0], torch.Tensor):
            other = args[0]
            target, dtype = ("cuda" if holds(other) else "cpu"), other.dtype
            quick = bool(kwargs.get("non_blocking", args[1] if len(args) > 1 else False))
            rest: dict[str, Any] = {}
        else:
            if args and isinstance(args[0], int) and not isinstance(args[0], bool):
                args = (f"cuda:{args[0]}", *args[1:])
            if len(args) > 3 or (len(args) == 3 and isinstance(args[2], bool) and not isinstance(args[1], bool)):
                copy = copy or bool(args[3] if len(args) > 3 else False)
                args = args[:3]
            if len(args) == 3 and isinstance(args[0], torch.dtype):
                # to(dtype, non_blocking, copy): also how a device context hands our own call back to us.
                copy, args = copy or bool(args[2]), args[:2]
            place, dtype, quick, layout = torch._C._nn._parse_to(*args, **kwargs)
            target = None if place is None else ("cuda" if place.type == "cuda" else place.type)
            rest = {} if layout is None else {"memory_format": layout}
        here = "cuda" if holds(self) else "cpu"
        if target not in (None, "cuda", "cpu"):
            return _raw_to(self, *args, **kwargs)
        if target is None or target == here:
            if dtype is None or dtype == self.dtype:
                return _raw_to(self, self.dtype, False, copy, **rest)
            return _raw_to(self, dtype, False, copy, **rest)
        return (to_device if target == "cuda" else to_host)(machine, self, dtype, quick)

    def cuda(self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
        return self if holds(self) else to_device(machine, self, None, non_blocking)

    def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
        return to_host(machine, self) if holds(self) else self

    def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if dtype is None:
            name = _raw_type(self)
            return name.replace("torch.", "torch.cuda.") if holds(self) else name
        if isinstance(dtype, torch.dtype):
            return _raw_to(self, dtype)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        wanted = getattr(torch, name.rsplit(".", 1)[-1]).dtype
        return self.to("cuda" if ".cuda." in name else "cpu", wanted)

    def pin_memory(self: Tensor, device: Any = None) -> Tensor:
        if holds(self):
            raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
        if machine.is_pinned(self):
            return self
        machine.note("pinned-allocation", machine.capture.number if machine.capture else None)
        return machine.pin(_raw_clone(self.detach()))

    def numpy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if holds(self):
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        looked_at(self)
        return Base.numpy(self, *args, **kwargs)

    shape_of: Any = Tensor
    raw_array, raw_repr, raw_format = shape_of.__array__, shape_of.__repr__, shape_of.__format__
    raw_deepcopy, raw_reduce, raw_dlpack = shape_of.__deepcopy__, shape_of.__reduce_ex__, shape_of.__dlpack__

    def array(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return numpy(self) if holds(self) else raw_array(self, *args, **kwargs)

    def looked_at(tensor: Tensor) -> None:
        for watcher in machine.on_host_read:
            watcher([tensor])

    def tolist(self: Tensor) -> Any:
        if holds(self):
            read(machine, self, "tolist", texts.HOST_COPY)
        looked_at(self)
        return Base.tolist(self)

    def shown(self: Tensor, *, tensor_contents: Any = None) -> str:
        if not holds(self):
            return str(raw_repr(self, tensor_contents=tensor_contents))
        read(machine, self, "repr")
        with off():
            return str(raw_repr(self, tensor_contents=tensor_contents))

    def formatted(self: Tensor, spec: str) -> str:
        if not holds(self):
            return str(raw_format(self, spec))
        read(machine, self, "format")
        with off():
            return str(raw_format(self, spec))

    def deepcopy(self: Tensor, memo: Any) -> Tensor:
        if not holds(self) or not self.is_leaf:
            return raw_deepcopy(self, memo)  # type: ignore[no-any-return]
        if id(self) in memo:
            return memo[id(self)]  # type: ignore[no-any-return]
        with torch.no_grad():
            made = self.detach().clone()
        made.requires_grad_(self.requires_grad)
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        memo[id(self)] = made
        return made

    def reduce(self: Tensor, protocol: Any) -> Any:
        if holds(self):
            read(machine, self, "pickle", texts.HOST_COPY)
        return raw_reduce(self, protocol)

    def dlpack(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return raw_dlpack(self, *args, **kwargs)

    def new_tensor(
        self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Tensor:
        where = device if device is not None else self.device
        return torch.tensor(data, dtype=dtype or self.dtype, device=where, requires_grad=requires_grad)

    def placed(raw: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def new(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            where = kwargs.pop("device", None)
            pin = kwargs.pop("pin_memory", False)
            if where is None:
                return raw(self, *args, **kwargs)
            with machine.towards("cuda" if is_cuda_device(where) else "cpu"):
                out = raw(self, *args, **kwargs)
            return machine.pin(out) if pin else out

        return new

    found: dict[str, Any] = {
        "device": property(device),
        "is_cuda": property(holds),
        "is_cpu": property(lambda self: not holds(self) and _raw_device(self).type == "cpu"),
        "get_device": lambda self: 0 if holds(self) else -1,
        "to": to,
        "cuda": cuda,
        "cpu": cpu,
        "type": type_,
        "pin_memory": pin_memory,
        "is_pinned": lambda self, device=None: machine.is_pinned(self),
        "numpy": numpy,
        "__array__": array,
        "tolist": tolist,
        "__repr__": shown,
        "__format__": formatted,
        "__deepcopy__": deepcopy,
        "__reduce_ex__": reduce,
        "__dlpack__": dlpack,
        "new_tensor": new_tensor,
        "record_stream": lambda self, stream: None,
    }
    for name in ("new_empty", "new_full", "new_ones", "new_zeros", "new_empty_strided"):
        found[name] = placed(getattr(Base, name))
    return found
