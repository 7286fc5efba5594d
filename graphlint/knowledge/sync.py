"""Calls and reads that make the host wait for the device, by canonical name.

Source: measured on an NVIDIA H200, torch 2.11, 2026-11-29: each call under a capture. `torch.cuda.set_sync_debug_mode`
does not see the calls of `WAITS`; all of them break a capture. `Event.record`, `Event.wait`, `Stream.wait_stream` and
`torch.cuda.memory_allocated` were fine.
"""

from __future__ import annotations

from graphlint.value import External, Value

_DEVICES = ("cuda", "xpu", "npu", "musa", "mlu", "hpu", "accelerator", "mps")

#: Canonical name -> what it does to a capture.
WAITS: dict[str, str] = {
    **{f"torch.{d}.synchronize": "waits for the whole device" for d in _DEVICES},
    **{f"torch.{d}.Stream.synchronize": "waits for a stream" for d in _DEVICES},
    **{f"torch.{d}.Event.synchronize": "waits for an event" for d in _DEVICES},
    **{f"torch.{d}.Stream.query": "asks whether a stream is done" for d in _DEVICES},
    **{f"torch.{d}.Event.query": "asks whether an event has happened" for d in _DEVICES},
    **{f"torch.{d}.Event.elapsed_time": "reads the time between two events" for d in _DEVICES},
    "torch.Stream.synchronize": "waits for a stream",
    "torch.Stream.query": "asks whether a stream is done",
    "torch.Event.synchronize": "waits for an event",
    "torch.Event.query": "asks whether an event has happened",
    "torch.Event.elapsed_time": "reads the time between two events",
    "torch.cuda.ExternalStream.synchronize": "waits for a stream",
    "torch.cuda.ExternalStream.query": "asks whether a stream is done",
    "torch.distributed.barrier": "waits for the other ranks on the host",
    "torch.distributed.monitored_barrier": "waits for the other ranks on the host",
    "torch.distributed.all_gather_object": "moves Python objects through host memory",
    "torch.distributed.broadcast_object_list": "moves Python objects through host memory",
    "torch.distributed.gather_object": "moves Python objects through host memory",
    "torch.distributed.scatter_object_list": "moves Python objects through host memory",
}

#: HostRead.op -> how the message says it.
READS: dict[str, str] = {
    "item": "reads a CUDA tensor's value on the host",
    "tolist": "copies a CUDA tensor to a Python list",
    "cpu": "copies a CUDA tensor to the host",
    "numpy": "copies a CUDA tensor to the host",
    "to": "copies a CUDA tensor to the host",
    "float": "reads a CUDA tensor's value as a Python number",
    "int": "reads a CUDA tensor's value as a Python number",
    "bool": "reads a CUDA tensor's value as a Python bool",
    "complex": "reads a CUDA tensor's value as a Python number",
    "index": "uses a 0-dim CUDA tensor as an index, which the host must read",
    "format": "formats a CUDA tensor, which reads its values on the host",
    "print": "prints a CUDA tensor, which reads its values on the host",
    "repr": "formats a CUDA tensor, which reads its values on the host",
    "log": "logs a CUDA tensor, which reads its values on the host",
    "range": "takes a CUDA tensor as a bound, which the host must read",
    "slice": "takes a CUDA tensor as a slice bound, which the host must read",
    "size": "takes a CUDA tensor as a size, which the host must read",
    "scalar-argument": "takes a CUDA tensor as a Python number, which the host must read",
    "math": "reads a CUDA tensor's value as a Python number",
    "round": "reads a CUDA tensor's value as a Python number",
}

#: What to write instead, by HostRead.op.
INSTEAD: dict[str, str] = {
    "item": "read it after the replay",
    "tolist": "read it after the replay",
    "cpu": "copy it after the replay",
    "numpy": "copy it after the replay",
    "to": "copy it after the replay, or into pinned memory with `non_blocking=True`",
    "float": "keep it a tensor",
    "int": "keep it a tensor",
    "bool": "keep it a tensor",
    "complex": "keep it a tensor",
    "index": "use `index_select`, `gather` or a 1-D index tensor",
    "format": "format it after the replay",
    "print": "print it after the replay",
    "repr": "format it after the replay",
    "log": "log it after the replay",
    "range": "loop over a host number",
    "slice": "use a mask or `gather`, or a host number",
    "size": "use a host number",
    "scalar-argument": "pass a host number, or use an operation that takes a tensor",
    "math": "use the torch function",
    "round": "use `torch.round`",
}

#: Reads that only a tensor has: a value so read is a tensor, whatever else is known of it.
TENSOR_ONLY = frozenset({"item", "cpu", "tolist", "numpy"})


def anomaly_mode(context: str, value: Value | None) -> bool:
    """Whether a `with` block turns on autograd's anomaly mode, which checks every gradient on the host."""
    return context in ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly") or (
        context.endswith("set_detect_anomaly") and not isinstance(value, External)
    )
