"""torch.cuda and torch.accelerator of the emulated device."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import torch

from graphlint.runtime.emulate import graph, rng
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.methods import CUDA
from graphlint.runtime.emulate.record import Recorded
from graphlint.runtime.emulate.streams import Event, Stream, StreamContext
from graphlint.runtime.emulate.timeline import Sleep

NAME = "emulated CUDA device"
TOTAL = 1 << 37


class _CapturedSleep:
    """A sleep inside a graph."""

    name, waits = "graphlint::sleep", True
    sources: tuple[()] = ()
    made: tuple[()] = ()

    def run(self, machine: Machine) -> None:
        """Time passes."""


class DeviceContext:
    """Stands for torch.cuda.device(...)."""

    def __init__(self, device: Any = None) -> None:
        self.idx, self.prev_idx = 0, 0

    def __enter__(self) -> DeviceContext:
        return self

    def __exit__(self, *exc: object) -> None:
        """There is one device."""


class MemPool:
    """Stands for torch.cuda.MemPool."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.id = graph.new_handle()


def cuda(machine: Machine) -> dict[str, Any]:
    """The attributes of torch.cuda to put in place."""
    arena = machine.arena

    def empty_cache() -> None:
        if machine.capture is not None:
            machine.note("empty-cache", machine.capture.number)
            return
        machine.empty_cache()

    def capturing() -> bool:
        inside = machine.capturing()
        machine.note("asked-capturing", machine.capture.number if inside else None)
        return inside

    def sleep(cycles: int) -> None:
        line = machine.current_stream().line
        if line.capture is not None:
            line.capture.calls.append(_CapturedSleep())
            line.tick()
        elif cycles >= 1_000_000:
            machine.pending.append(Sleep(line))

    def manual_seed(seed: int) -> None:
        rng.default_generator().manual_seed(int(seed))

    def get_rng_state(device: Any = "cuda") -> torch.Tensor:
        return rng.default_generator().get_state()

    def set_rng_state(state: torch.Tensor, device: Any = "cuda") -> None:
        rng.default_generator().set_state(state)

    def reset_peak(device: Any = None) -> None:
        arena.peak_allocated, arena.peak_reserved = arena.allocated, arena.reserved

    def stats(device: Any = None) -> dict[str, int]:
        return {
            "allocated_bytes.all.current": arena.allocated,
            "allocated_bytes.all.peak": arena.peak_allocated,
            "active_bytes.all.current": arena.allocated,
            "active_bytes.all.peak": arena.peak_allocated,
            "reserved_bytes.all.current": arena.reserved,
            "reserved_bytes.all.peak": arena.peak_reserved,
            "segment.all.current": sum(len(p.segments) for p in arena.pools.values()),
            "num_alloc_retries": 0,
            "num_ooms": 0,
        }

    properties = SimpleNamespace(
        name=NAME,
        major=9,
        minor=0,
        total_memory=TOTAL,
        multi_processor_count=132,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block_optin=232448,
        gcnArchName="",
        is_integrated=0,
        is_multi_gpu_board=0,
        L2_cache_size=50 << 20,
        uuid="emulated",
    )

    def tensor_type(name: str) -> Any:
        return lambda *args: getattr(torch, name)(*args).cuda()

    found: dict[str, Any] = {
        "Stream": Stream,
        "Event": Event,
        "ExternalStream": lambda pointer, device=None, **k: machine.default if pointer == 0 else Stream(),
        "StreamContext": StreamContext,
        "stream": lambda stream: StreamContext(stream),
        "current_stream": lambda device=None: machine.current_stream(),
        "default_stream": lambda device=None: machine.default,
        "set_stream": lambda stream: None if stream is None else machine.set_stream(stream),
        "CUDAGraph": graph.CUDAGraph,
        "graph": graph.graph,
        "graph_pool_handle": graph.graph_pool_handle,
        "is_current_stream_capturing": capturing,
        "MemPool": MemPool,
        "use_mem_pool": lambda pool, device=None: contextlib.nullcontext(),
        "device": DeviceContext,
        "device_of": DeviceContext,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_is_in_bad_fork": lambda: False,
        "_lazy_call": lambda call, **k: call(),
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_name": lambda device=None: NAME,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_properties": lambda device=None: properties,
        "get_arch_list": lambda: ["sm_90"],
        "can_device_access_peer": lambda a, b: False,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_tf32_supported": lambda: True,
        "utilization": lambda device=None: 0,
        "synchronize": lambda device=None: machine.synchronize("synchronize"),
        "ipc_collect": lambda: machine.synchronize("ipc_collect"),
        "empty_cache": empty_cache,
        "_sleep": sleep,
        "memory_allocated": lambda device=None: arena.allocated,
        "max_memory_allocated": lambda device=None: arena.peak_allocated,
        "memory_reserved": lambda device=None: arena.reserved,
        "max_memory_reserved": lambda device=None: arena.peak_reserved,
        "memory_cached": lambda device=None: arena.reserved,
        "mem_get_info": lambda device=None: (TOTAL - arena.reserved, TOTAL),
        "memory_stats": stats,
        "memory_summary": lambda *a, **k: f"allocated {arena.allocated}, reserved {arena.reserved}",
        "memory_snapshot": lambda *a, **k: [],
        "reset_peak_memory_stats": reset_peak,
        "reset_max_memory_allocated": reset_peak,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_usage": lambda device=None: 0,
        "set_per_process_memory_fraction": lambda *a, **k: None,
        "set_sync_debug_mode": lambda mode: None,
        "get_sync_debug_mode": lambda: 0,
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed,
        "seed": lambda: rng.default_generator().seed(),
        "seed_all": lambda: rng.default_generator().seed(),
        "initial_seed": lambda: rng.default_generator().initial_seed(),
        "get_rng_state": get_rng_state,
        "get_rng_state_all": lambda: [get_rng_state()],
        "set_rng_state": set_rng_state,
        "set_rng_state_all": lambda states: set_rng_state(states[0]),
        "default_generators": (rng.default_generator(),),
        "current_blas_handle": lambda: 1,
    }
    for name in ["Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"]:
        found[f"{name}Tensor"] = tensor_type(f"{name}Tensor")
    return found


def accelerator(machine: Machine, functions: dict[str, Any]) -> dict[str, Any]:
    """The attributes of torch.accelerator to put in place."""
    return {
        "is_available": lambda: True,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "device_count": lambda: 1,
        "current_device_index": lambda: 0,
        "current_device_idx": lambda: 0,
        "set_device_index": lambda device: None,
        "set_device_idx": lambda device: None,
        "current_stream": lambda device=None: machine.current_stream(),
        "set_stream": machine.set_stream,
        "synchronize": lambda device=None: machine.synchronize("synchronize"),
        "empty_cache": functions["empty_cache"],
        "memory_allocated": functions["memory_allocated"],
        "memory_reserved": functions["memory_reserved"],
        "max_memory_allocated": functions["max_memory_allocated"],
        "max_memory_reserved": functions["max_memory_reserved"],
        "memory_stats": functions["memory_stats"],
        "reset_peak_memory_stats": functions["reset_peak_memory_stats"],
        "Graph": graph.AcceleratorGraph,
        "device_index": DeviceContext,
    }


__all__ = ["CUDA", "Recorded", "accelerator", "cuda"]
