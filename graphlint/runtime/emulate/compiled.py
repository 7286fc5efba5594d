"""torch.compile regions: the wrapped function itself, with the rules of cudagraph trees.

A compiled function with cudagraphs on is run to warm up (first call for its shapes), recorded (second call) and
replayed
from then on into the memory of the recording. Each call is a new generation, unless a backward is still to come: it
takes
the outputs of the generation before. While warming up or recording, an output that is still held raises when it is
touched; in the steady state its memory is simply written over. Mutated inputs that are neither parameters nor buffers
make cudagraphs be skipped. (torch/_inductor/cudagraph_trees.py; measured on an NVIDIA H200, torch 2.11, 2026-11-29.)
"""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.record import flat
from graphlint.runtime.emulate.storages import storage_of as _storage_of

Tensor = torch.Tensor
_numbers = itertools.count(1)
WARM_UP, RECORDING, EXECUTION = "warm-up", "recording", "execution"


@dataclass(slots=True)
class Shape:
    """One recording: a function at given shapes. `storages` are those that its outputs live in."""

    calls: int = 0
    storages: dict[int, Any] = field(default_factory=dict)
    skipped: bool = False


@dataclass(slots=True)
class Held:
    """An output that the program may still hold."""

    tensor: weakref.ref[Any]
    storage: weakref.ref[Any]
    site: events.Stack
    gradient: bool = False


class Trees:
    """What all compiled functions of a process share: generations and the outputs of the current one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.marks = self.calls = 0
        self.generation: int | None = None
        self.state: str | None = None
        self.pending_backward = False
        self.live: list[Held] = []
        self.ranges: list[tuple[int, int]] = []
        self.depth = 0
        self.outputs: set[int] = set()
        machine.on_call.append(self._gradients)

    def mark(self) -> None:
        self.marks += 1
        self.machine.note("mark-step")

    def begin(self) -> None:
        """A compiled function is called."""
        self.calls += 1
        now = -self.marks if self.marks else self.calls
        if now != self.generation and (self.marks or not self.pending_backward):
            self._end()
        self.generation = now

    def _end(self) -> None:
        machine = self.machine
        for held in self.live:
            storage = held.storage()
            if storage is None:
                continue
            if self.state in (WARM_UP, RECORDING):
                where = held.site[0] if held.site else None
                place = f'File "{where.path}", line {where.line}, in {where.function}' if where else "unknown"
                text = texts.OVERWRITTEN_GRADIENT if held.gradient else texts.OVERWRITTEN
                machine.poison(storage, text.format(place), held.site)
            elif held.tensor() is not None and not held.gradient:
                machine.stale[id(held.tensor())] = (held.tensor, held.site)
        self.live.clear()

    def held(self, tensor: Tensor, site: events.Stack, gradient: bool = False) -> Held:
        return Held(weakref.ref(tensor), weakref.ref(_storage_of(tensor)), site, gradient)

    def _gradients(self, func: Any, name: str, held: Any, changes: Any, fresh: list[Tensor], stream: int) -> None:
        """Gradients that a compiled backward makes live in the graphs' memory, too."""
        if not self.ranges or not fresh:
            return
        node = torch._C._current_autograd_node()
        if node is None:
            return
        number = node._sequence_nr()
        if any(low <= number < high for low, high in self.ranges):
            self.pending_backward = False
            for t in fresh:
                self.live.append(self.held(t, frames.user_sites(), True))


class Region:
    """One `torch.compile` call."""

    def __init__(self, trees: Trees, function: Callable[..., Any], cudagraphs: bool, module: Any) -> None:
        self.trees, self.function, self.cudagraphs, self.module = trees, function, cudagraphs, module
        self.number = next(_numbers)
        self.shapes: dict[Any, Shape] = {}
        self.made_at = frames.user_sites()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trees = self.trees
        machine = trees.machine
        if trees.depth:
            return self.function(*args, **kwargs)
        key = _key((args, kwargs)), torch.is_grad_enabled()
        first = key not in self.shapes
        shape = self.shapes.setdefault(key, Shape())
        if machine.capturing() and (self.cudagraphs or first):
            machine.refuse("nested" if self.cudagraphs else "first-use", "torch.compile", texts.NOT_PERMITTED)
        if not self.cudagraphs:
            shape.calls += 1
            return self._inside(args, kwargs)
        return self._run(shape, args, kwargs)

    def _inside(self, args: Any, kwargs: Any) -> Any:
        self.trees.depth += 1
        try:
            return self.function(*args, **kwargs)
        finally:
            self.trees.depth -= 1

    def _run(self, shape: Shape, args: Any, kwargs: Any) -> Any:
        trees, machine = self.trees, self.trees.machine
        trees.begin()
        site = frames.user_sites()
        shape.calls += 1
        state = WARM_UP if shape.calls == 1 else RECORDING if shape.calls == 2 else EXECUTION
        mutated: list[tuple[int, events.Stack]] = []
        before = set(machine.owners)
        fixed = self._fixed()

        def watch(func: Any, name: str, held: Any, changes: list[Tensor], fresh: Any, stream: int) -> None:
            for t in changes:
                start = _storage_of(t).data_ptr()
                if hasattr(t, "_dynamo_static_input_type"):
                    continue  # mark_static_address: the user promised that it stays where it is
                if start in before and start not in fixed and start not in trees.outputs:
                    mutated.append((start, frames.user_sites()))

        machine.on_call.append(watch)
        low = torch._C._autograd._get_sequence_nr()
        try:
            out = self._inside(args, kwargs)
        finally:
            machine.on_call.remove(watch)
        high = torch._C._autograd._get_sequence_nr()
        if mutated and not shape.skipped:
            shape.skipped = True
            _count_skip()
            machine.log(
                events.Note, at=mutated[0][1], name="compile-skipped", data={"site": site, "why": "mutated inputs"}
            )
        if shape.skipped:
            return out
        trees.state = state
        results = [t for t in flat_tree(out) if machine.holds(t) and _storage_of(t).data_ptr() not in before]
        if any(t.requires_grad for t in results):
            trees.pending_backward = True
            trees.ranges = [*trees.ranges[-64:], (low, high)]
        for place, t in enumerate(results):
            if state == RECORDING:
                shape.storages[place] = _storage_of(t)
            recorded = shape.storages.get(place)
            if recorded is not None and recorded.nbytes() >= _storage_of(t).nbytes():
                # a storage of the program's own over the recording's memory: when it dies, the output was let go
                alias = machine.ghost(machine.over(recorded, t))
                alias.copy_(t.detach())
                t.data = alias
            trees.outputs.add(_storage_of(t).data_ptr())
            trees.live.append(trees.held(t, site))
        machine.log(
            events.Note,
            at=site,
            name="compiled-call",
            data={
                "state": state,
                "shapes": len([s for s in self.shapes.values() if not s.skipped]),
                "region": self.number,
            },
        )
        return out

    def _fixed(self) -> set[int]:
        """Addresses of parameters and buffers: static inputs."""
        modules = [self.module] if self.module is not None else []
        for cell in getattr(self.function, "__closure__", None) or ():
            if isinstance(cell.cell_contents, torch.nn.Module):
                modules.append(cell.cell_contents)
        owner = getattr(self.function, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            modules.append(owner)
        found = {_storage_of(t).data_ptr() for m in modules for t in (*m.parameters(), *m.buffers())}
        return found


class CompiledModule(torch.nn.Module):
    """Stands for torch._dynamo.OptimizedModule."""

    def __init__(self, module: torch.nn.Module, region: Region) -> None:
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, "_region", region)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._region(*args, **kwargs)

    forward = __call__

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_orig_mod", "training") or name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)


def flat_tree(out: Any) -> list[Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]


def _key(arguments: Any) -> Any:
    def one(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return tuple(value.shape), value.dtype, value.requires_grad
        return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__

    return tuple(one(v) for v in torch.utils._pytree.tree_leaves(arguments))


def _count_skip() -> None:
    module = sys.modules.get("torch._dynamo.utils")
    if module is not None:
        module.counters["inductor"]["cudagraph_skips"] += 1


def _wants_cudagraphs(mode: Any, options: Any, backend: Any) -> bool:
    if mode in ("reduce-overhead", "max-autotune") or backend == "cudagraphs":
        return True
    if options and "triton.cudagraphs" in options:
        return bool(options["triton.cudagraphs"])
    config = sys.modules.get("torch._inductor.config")
    return bool(config is not None and config.triton.cudagraphs and mode is None)


def patches(machine: Machine) -> dict[str, Any]:
    """What stands in for torch.compile and its helpers."""
    trees = Trees(machine)
    machine.trees = trees

    def compile_(
        model: Any = None,
        *,
        mode: Any = None,
        options: Any = None,
        backend: Any = "inductor",
        disable: bool = False,
        **_: Any,
    ) -> Any:
        if model is None:
            return functools.partial(compile_, mode=mode, options=options, backend=backend, disable=disable)
        if disable:
            return model
        wanted = _wants_cudagraphs(mode, options, backend)
        machine.note("compiled", cudagraphs=wanted)
        if isinstance(model, torch.nn.Module):
            return CompiledModule(model, Region(trees, model, wanted, model))
        region = Region(trees, model, wanted, None)

        @functools.wraps(model)
        def run(*args: Any, **kwargs: Any) -> Any:
            return region(*args, **kwargs)

        return run

    return {
        "compile": compile_,
        "compiler.cudagraph_mark_step_begin": trees.mark,
        "compiler.is_compiling": lambda: False,
    }


__all__ = ["CompiledModule", "Region", "Trees", "flat", "patches"]
