"""Which aten calls a capture refuses, and with which words. Measured on an NVIDIA H200, torch 2.11, 2026-11-29."""

from __future__ import annotations

from typing import Any

import torch

from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine

Tensor = torch.Tensor

#: Calls that give their result to the host.
READS = frozenset({"aten::_local_scalar_dense", "aten::equal"})
#: The size of the result depends on data.
DYNAMIC = frozenset(
    f"aten::{n}"
    for n in [
        "nonzero",
        "masked_select",
        "_unique",
        "_unique2",
        "unique_dim",
        "unique_consecutive",
        "unique_dim_consecutive",
        "argwhere",
        "_to_sparse",
        "to_sparse",
        "combinations",
    ]
)
#: Refused because the size depends on data, with the words of a host copy.
DYNAMIC_COPY = frozenset({"aten::bincount"})
#: The result is checked, or computed, on the host.
CHECKED = frozenset(
    f"aten::{n}"
    for n in [
        "_linalg_check_errors",
        "_linalg_eigh",
        "linalg_eig",
        "_linalg_eigvals",
        "linalg_lstsq",
        "linalg_ldl_solve",
        "segment_reduce",
        "linalg_ldl_factor_ex",
        "linalg_matrix_exp",
        "_nested_tensor_from_mask",
    ]
)
CHECKED_COPY = frozenset(f"aten::{n}" for n in ["_linalg_svd", "histc", "_ctc_loss", "linalg_matrix_exp"])
_CUBLAS = frozenset(
    f"aten::{n}"
    for n in [
        "mm",
        "addmm",
        "bmm",
        "baddbmm",
        "addmv",
        "mv",
        "dot",
        "vdot",
        "addbmm",
        "_addmm_activation",
        "linear",
        "addmm_",
    ]
)
_CUDNN = frozenset(f"aten::{n}" for n in ["convolution", "_convolution", "mkldnn_convolution", "convolution_backward"])
_CUSOLVER = frozenset(
    f"aten::{n}"
    for n in [
        "linalg_qr",
        "_linalg_det",
        "_linalg_slogdet",
        "linalg_cholesky_ex",
        "linalg_inv_ex",
        "geqrf",
        "linalg_lu_factor_ex",
        "_linalg_solve_ex",
        "linalg_lu",
    ]
)
_FFT = frozenset(f"aten::{n}" for n in ["_fft_r2c", "_fft_c2c", "_fft_c2r"])
_INDEX = frozenset(
    {"aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_", "aten::_unsafe_index"}
)
#: Calls that may take tensors of both devices.
_MIXED = frozenset(
    f"aten::{n}"
    for n in [
        "copy_",
        "_to_copy",
        "index",
        "index_put_",
        "index_put",
        "_index_put_impl_",
        "_unsafe_index",
        "where",
        "set_",
        "_copy_from",
        "_ctc_loss",
        "_pack_padded_sequence",
        "is_same_size",
        "equal",
        "_has_compatible_shallow_copy_type",
        "lift_fresh",
        "record_stream",
        "_local_scalar_dense",
        "_fused_adam_",
        "_fused_adamw_",
        "_fused_sgd_",
        "_fused_adagrad_",
        "resize_as_",
        "embedding_bag",
    ]
)


def check(
    machine: Machine, func: Any, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor], held: list[Tensor]
) -> None:
    """Raises what the GPU raises for this call now; notes the first use of libraries."""
    if name in _CUBLAS:
        machine.use_library("cublas", texts.CUBLAS)
    elif name in _CUDNN:
        machine.use_library("cudnn", texts.CUDNN)
    elif name in _CUSOLVER:
        machine.use_library("cusolver", texts.NOT_PERMITTED)
    elif name in _FFT:
        machine.use_library("cufft", texts.NOT_PERMITTED)
    if held and len(held) < len(given) and name not in _MIXED:
        _same_device(machine, name, given)
    capture = machine.capture
    if capture is None:
        return
    inside = machine.capturing()
    if not inside:
        if capture.mode == "global" and (name in READS or _waits_for_copy(machine, name, args, kwargs)):
            machine.refuse("sync", "read", texts.NOT_PERMITTED, name)
        return
    if name in READS:
        machine.refuse("sync", "read", texts.NOT_PERMITTED, name)
    elif name in DYNAMIC or (
        name == "aten::repeat_interleave" and kwargs.get("output_size") is None and len(given) == 1
    ):
        machine.refuse("dynamic-shape", name[6:], texts.NOT_PERMITTED, name)
    elif name in DYNAMIC_COPY:
        machine.refuse("dynamic-shape", name[6:], texts.HOST_COPY, name)
    elif name in CHECKED:
        machine.refuse("sync", name[6:], texts.NOT_PERMITTED, name)
    elif name in CHECKED_COPY:
        machine.refuse("sync", name[6:], texts.HOST_COPY, name)
    elif name in _INDEX:
        _index(machine, name, args)
    elif name in ("aten::copy_", "aten::_to_copy"):
        _copy(machine, name, args, kwargs, given)
    elif name in ("aten::masked_fill", "aten::masked_fill_", "aten::index_fill", "aten::index_fill_"):
        value = args[-1]
        if isinstance(value, torch.Tensor) and machine.holds(value):
            machine.refuse("sync", "scalar-argument", texts.NOT_PERMITTED, name)
    elif name == "aten::where" and any(
        isinstance(a, torch.Tensor) and not machine.holds(a) and not machine.is_number(a) for a in args
    ):
        machine.refuse("host-copy", "where", texts.HOST_COPY, name)
    elif name == "aten::normal" and machine.version < (2, 14) and _deviation(args, kwargs):
        machine.refuse("sync", "normal", texts.NOT_PERMITTED, name)


def _deviation(args: Any, kwargs: dict[str, Any]) -> bool:
    return isinstance(kwargs.get("std", args[1] if len(args) > 1 else None), torch.Tensor)


def _index(machine: Machine, name: str, args: Any) -> None:
    places = [i for i in args[1] if i is not None]
    value = args[2] if len(args) > 2 else None
    masked = any(i.dtype in (torch.bool, torch.uint8) for i in places)
    if any(not machine.holds(i) and not machine.is_number(i) for i in places):
        machine.refuse("host-copy", "index", texts.HOST_COPY, name)
        return
    if masked:
        if value is not None and value.numel() == 1 and not machine.holds(value):
            return  # becomes masked_fill_
        if value is not None and value.numel() == 1:
            machine.refuse("sync", "scalar-argument", texts.NOT_PERMITTED, name)
        else:
            machine.refuse("dynamic-shape", "mask", texts.NOT_PERMITTED, name)
    elif value is not None and not machine.holds(value):
        machine.refuse("host-copy", "setitem", texts.HOST_COPY, name)


def _copy(machine: Machine, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor]) -> None:
    source = args[1] if name == "aten::copy_" else args[0]
    to_device = machine.holds(args[0]) if name == "aten::copy_" else machine.here.target != "cpu"
    from_device = machine.holds(source)
    if to_device == from_device or source.numel() == 0:
        return
    if machine.is_number(source):
        return
    host = source if to_device else (args[0] if name == "aten::copy_" else None)
    quick = bool(kwargs.get("non_blocking") or (name == "aten::copy_" and len(args) > 2 and args[2]))
    pinned = host is not None and machine.is_pinned(host)
    if host is None and quick:
        return  # measured: lands in pinned memory
    kind, how = ("host-copy", "copy") if to_device else ("sync", "to-host")
    if not pinned:
        machine.refuse(kind, how, texts.HOST_COPY, name)
    elif not quick:
        machine.refuse(kind, how, texts.NOT_PERMITTED, name)


def _waits_for_copy(machine: Machine, name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """A copy between host and device that the host waits for."""
    if name not in ("aten::copy_", "aten::_to_copy"):
        return False
    source = args[1] if name == "aten::copy_" else args[0]
    to_device = machine.holds(args[0]) if name == "aten::copy_" else machine.here.target != "cpu"
    if to_device == machine.holds(source) or source.numel() == 0 or machine.is_number(source):
        return False
    return not (kwargs.get("non_blocking") or (name == "aten::copy_" and len(args) > 2 and args[2]))


def _same_device(machine: Machine, name: str, given: list[Tensor]) -> None:
    sized = [t for t in given if t.dim() > 0]
    if any(machine.holds(t) for t in sized) and any(not machine.holds(t) and not machine.is_number(t) for t in sized):
        raise RuntimeError(f"{texts.OTHER_DEVICE} (when checking argument in method wrapper_CUDA_{name[6:]})")
