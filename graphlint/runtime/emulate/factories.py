"""torch.zeros and its like with `device="cuda"` or `pin_memory=True`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.methods import CUDA, is_cuda_device, to_device

Tensor = torch.Tensor
NAMES = [
    "empty",
    "empty_permuted",
    "empty_strided",
    "zeros",
    "ones",
    "full",
    "rand",
    "randn",
    "randint",
    "randperm",
    "arange",
    "range",
    "linspace",
    "logspace",
    "eye",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "bartlett_window",
    "blackman_window",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
    "normal",
    "complex",
    "polar",
    "from_file",
]
#: They make their result where their arguments lie, as `torch.zeros_like` does, whatever the default device.
_FOLLOW = frozenset({"normal", "complex", "polar", "from_file"})


def default_device() -> Any:
    """The device that `torch.set_default_device` or `with torch.device(...)` chose; None if none did."""
    # not torch.utils._device.CURRENT_DEVICE, which all threads share: the choice is one of this thread
    for depth in reversed(range(torch._C._len_torch_function_stack())):
        mode = torch._C._get_function_stack_at(depth)
        if isinstance(mode, torch.utils._device.DeviceContext):
            return mode.device
    return None


def _plain(machine: Machine, raw: Callable[..., Any]) -> Callable[..., Any]:
    follows = raw.__name__.endswith("_like") or raw.__name__ in _FOLLOW

    @functools.wraps(raw)
    def make(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get("device")
        device = given if given is not None or follows else default_device()
        pin = kwargs.pop("pin_memory", False)
        if device is None:
            machine.here.explicit += 1
            try:
                out = raw(*args, **kwargs)
            finally:
                machine.here.explicit -= 1
        elif is_cuda_device(device):
            kwargs["device"] = "cpu"
            with machine.towards("cuda"):
                return raw(*args, **kwargs)
        else:
            machine.here.explicit += 1
            try:
                with machine.towards("cpu" if torch.device(device).type == "cpu" else None):
                    out = raw(*args, **kwargs)
            finally:
                machine.here.explicit -= 1
        if pin:
            machine.note("pinned-allocation", machine.capture.number if machine.capture else None)
            machine.pin(out)
        return out

    return make


def _upload(machine: Machine, host: Tensor) -> Tensor:
    if machine.capturing() and host.numel():
        machine.refuse("host-copy", "constructor", texts.HOST_COPY)
        with torch.no_grad(), machine.towards("cuda"):
            return host.clone()
    return to_device(machine, host)


def _tensor(machine: Machine, raw: Callable[..., Any], shares: bool) -> Callable[..., Any]:
    @functools.wraps(raw)
    def make(data: Any, *args: Any, **kwargs: Any) -> Any:
        if shares and isinstance(data, torch.Tensor):
            dtype = kwargs.get("dtype", args[0] if args and isinstance(args[0], torch.dtype) else None)
            device = kwargs.get("device")
            made = data if device is None else data.to(device)
            made = made if dtype is None else made.to(dtype)
            return made.clone() if kwargs.get("copy") else made
        given = kwargs.pop("device", None)
        device = given if given is not None else default_device()
        if given is None and device is None and isinstance(data, torch.Tensor) and machine.holds(data):
            device = CUDA
        pin = kwargs.pop("pin_memory", False)
        gradient = kwargs.pop("requires_grad", False)
        if isinstance(data, torch.Tensor):
            made = data.detach().clone()
            made = made.to(kwargs["dtype"]) if kwargs.get("dtype") else made
            made = made.to(device) if device is not None else made
        else:
            with machine.towards(None):
                made = raw(data, *args, device="cpu", **kwargs)
            if is_cuda_device(device):
                made = _upload(machine, made)
        if pin:
            machine.pin(made)
        return made.requires_grad_() if gradient else made

    return make


def patches(machine: Machine) -> dict[str, Any]:
    """The functions of torch to put in place."""
    found: dict[str, Any] = {n: _plain(machine, getattr(torch, n)) for n in NAMES if hasattr(torch, n)}
    found["tensor"] = _tensor(machine, torch.tensor, False)
    found["as_tensor"] = _tensor(machine, torch.as_tensor, True)
    found["asarray"] = _tensor(machine, torch.asarray, True)
    return found


def one_hot(machine: Machine, raw: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """On the GPU, only a missing `num_classes` is a read; the CPU kernel checks values besides."""

    def make(tensor: Tensor, num_classes: int = -1) -> Tensor:
        if not machine.holds(tensor):
            return raw(tensor, num_classes)
        if num_classes == -1:
            if machine.capturing():
                machine.refuse("dynamic-shape", "one_hot", texts.NOT_PERMITTED, "aten::one_hot")
            num_classes = int(tensor.detach().cpu().max()) + 1 if not machine.capturing() else 2
        lanes = torch.arange(num_classes, device="cuda")
        return (tensor.unsqueeze(-1) == lanes).to(torch.int64)

    return make


def following(machine: Machine, raw: Callable[..., Any]) -> Callable[..., Any]:
    """For functions whose C++ code makes new tensors on the device of their inputs."""

    @functools.wraps(raw)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = torch.utils._pytree.tree_leaves((args, kwargs))
        if not any(isinstance(t, torch.Tensor) and machine.holds(t) for t in given):
            return raw(*args, **kwargs)
        with machine.towards("cuda"):
            return raw(*args, **kwargs)

    return run
