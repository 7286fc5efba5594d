"""Puts the emulated device in place of torch's own, and takes it away again."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import torch
import torch.accelerator
import torch.cuda.graphs
import torch.cuda.memory
import torch.cuda.random
import torch.cuda.streams
import torch.nn.functional
import torch.nn.utils.rnn

from graphlint.runtime import frames
from graphlint.runtime.emulate import autograd, compiled, cuda_api, factories, graph, machine, methods, rng
from graphlint.runtime.emulate.dispatch import DeviceMode
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.streams import Event, Stream

_MISSING = object()
#: Their C++ code makes new tensors where their inputs lie.
_FOLLOWING = (
    (torch, "block_diag cov corrcoef stft istft vander combinations cartesian_prod gradient trapezoid bartlett_window"),
    (torch.nn.functional, "scaled_dot_product_attention affine_grid embedding_bag pad interpolate"),
    (torch.nn.utils.rnn, "pad_sequence pad_packed_sequence"),
)


class Patches:
    """Attributes set on modules and classes, with what they held before."""

    def __init__(self) -> None:
        self._old: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        self._old.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def undo(self) -> None:
        for owner, name, value in reversed(self._old):
            with contextlib.suppress(AttributeError, TypeError):
                if value is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, value)
        self._old.clear()


def _autocast(device: Machine, patches: Patches) -> None:
    """`torch.autocast("cuda")` works on the CPU tensors that stand for CUDA's."""
    kind = torch.amp.autocast_mode.autocast
    numbers = itertools.count(1)
    begin, enter, leave = kind.__init__, kind.__enter__, kind.__exit__
    enabled, dtype_of, set_enabled = torch.is_autocast_enabled, torch.get_autocast_dtype, torch.set_autocast_enabled

    @functools.wraps(begin)
    def init(self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None) -> None:
        self._graphlint_cuda = device_type == "cuda"
        self._graphlint_site = frames.in_user_code(frames.user_sites())
        self._graphlint_number = next(numbers)
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype if dtype is not None else torch.float16
        begin(self, device_type, dtype, enabled, cache_enabled)

    def note(self: Any, name: str) -> None:
        if getattr(self, "_graphlint_cuda", False):
            inside = device.capture.number if device.capture is not None else None
            device.note(
                name,
                inside,
                context=self._graphlint_number,
                cache=bool(self._cache_enabled),
                enabled=bool(self._enabled),
                site=self._graphlint_site,
            )
            if name == "autocast-enter":
                device.autocasts.append(self._graphlint_site)
            elif device.autocasts:
                device.autocasts.pop()

    def entered(self: Any) -> Any:
        out = enter(self)  # type: ignore[no-untyped-call]
        note(self, "autocast-enter")
        return out

    def left(self: Any, *exc: Any) -> Any:
        note(self, "autocast-exit")
        return leave(self, *exc)

    patches.set(kind, "__init__", init)
    patches.set(kind, "__enter__", entered)
    patches.set(kind, "__exit__", left)
    patches.set(torch, "is_autocast_enabled", lambda device_type="cuda": enabled("cpu"))
    patches.set(torch, "get_autocast_dtype", lambda device_type="cuda": dtype_of("cpu"))
    patches.set(torch, "get_autocast_gpu_dtype", lambda: dtype_of("cpu"))
    patches.set(torch, "set_autocast_enabled", lambda *args: set_enabled("cpu", args[-1]))


def _optimizers(device: Machine, patches: Patches) -> None:
    """The check of `step()` for `capturable`, answered by torch itself and noted."""
    kind = torch.optim.Optimizer
    for name in ("_accelerator_graph_capture_health_check", "_cuda_graph_capture_health_check"):
        check = vars(kind).get(name)
        if check is None:
            continue

        def checked(self: Any, *, check: Any = check) -> None:
            if not device.capturing():
                return
            try:
                check(self)
            except (RuntimeError, KeyError) as error:
                device.refuse("optimizer", "step", str(error), invalidates=False)

        patches.set(kind, name, checked)


def _graphed(device: Machine) -> Any:
    """torch's own make_graphed_callables; the graphs that it makes say so."""
    raw = torch.cuda.graphs.make_graphed_callables

    @functools.wraps(raw)
    def make(*args: Any, **kwargs: Any) -> Any:
        before = set(device.graphs)
        device.note("graphed-callables-begin", callables=_flat(args[0] if args else kwargs.get("callables")))
        graph.CUDAGraph.kind = "graphed-callables"
        try:
            return _positional(device, raw(*args, **kwargs))
        except (RuntimeError, AssertionError) as error:
            device.note("graphed-refused", text=str(error), autocast=device.autocasts[0] if device.autocasts else None)
            raise
        finally:
            graph.CUDAGraph.kind = "graph"
            made = [g.number for g in device.graphs if g not in before]
            device.note("graphed-callables-end", graphs=made)

    return make


def _positional(device: Machine, made: Any) -> Any:
    """Graphed callables that say so where they are given keywords, which they do not take."""

    def guarded(inner: Any) -> Any:
        @functools.wraps(inner)
        def run(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                device.note("graphed-keywords", names=tuple(kwargs))
            return inner(*args, **kwargs)

        return run

    if isinstance(made, tuple):
        return tuple(_positional(device, one) for one in made)
    if isinstance(made, torch.nn.Module):
        made.forward = guarded(made.forward)
        return made
    return guarded(made)


def _flat(callables: Any) -> tuple[Any, ...]:
    return tuple(callables) if isinstance(callables, (tuple, list)) else (callables,)


def _lazy(patches: Patches, methods_of_tensor: dict[str, Any]) -> None:
    """The methods of tensors, for those too that a lazy module has not made yet: they answer to a list of methods."""
    lazy: Any = vars(torch.nn.parameter)["UninitializedTensorMixin"]
    allowed = list(lazy._allowed_methods)
    for name, value in methods_of_tensor.items():
        if getattr(torch.Tensor, name, None) in allowed:
            allowed.append(value)
        patches.set(torch.Tensor, name, value)
    patches.set(lazy, "_allowed_methods", allowed)


def _apply(device: Machine, patches: Patches) -> None:
    _lazy(patches, methods.patches(device))
    for name, value in factories.patches(device).items():
        patches.set(torch, name, value)
    hot = factories.one_hot(device, torch.nn.functional.one_hot)
    patches.set(torch.nn.functional, "one_hot", hot)
    for owner, names in _FOLLOWING:
        for name in names.split():
            if hasattr(owner, name):
                patches.set(owner, name, factories.following(device, getattr(owner, name)))
    for name, value in autograd.patches(device).items():
        patches.set(torch.autograd, name, value)
    functions = cuda_api.cuda(device)
    graphed = _graphed(device)
    homes: tuple[Any, ...] = (torch.cuda, torch.cuda.graphs, torch.cuda.streams, torch.cuda.memory, torch.cuda.random)
    for home in homes:
        for name, value in functions.items():
            if home is torch.cuda or name in vars(home):
                patches.set(home, name, value)
        if home in (torch.cuda, torch.cuda.graphs):
            patches.set(home, "make_graphed_callables", graphed)
    for name, value in cuda_api.accelerator(device, functions).items():
        patches.set(torch.accelerator, name, value)
    patches.set(torch, "Generator", rng.Generator)
    patches.set(torch, "Stream", Stream)
    patches.set(torch, "Event", Event)
    patches.set(torch.backends.cuda, "is_built", lambda: True)
    patches.set(torch.backends.cudnn, "is_available", lambda: True)
    patches.set(torch.version, "cuda", torch.version.cuda or "13.0")
    patches.set(torch, "get_device_module", lambda device=None: torch.cuda)
    load = torch.load

    @functools.wraps(load)
    def loaded(f: Any, map_location: Any = None, **kwargs: Any) -> Any:
        if isinstance(map_location, (str, torch.device)) and methods.is_cuda_device(map_location):
            host = load(f, map_location="cpu", **kwargs)
            return torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.cuda(), host)
        return load(f, map_location=map_location, **kwargs)

    patches.set(torch, "load", loaded)
    for name, value in compiled.patches(device).items():
        owner, attribute = (torch.compiler, name[9:]) if name.startswith("compiler.") else (torch, name)
        patches.set(owner, attribute, value)
    _autocast(device, patches)
    _optimizers(device, patches)
    group = torch._C._group_tensors_by_device_and_dtype

    @functools.wraps(group)
    def grouped(lists: Any, with_indices: bool = False) -> Any:
        found = group(lists, with_indices)
        return {
            (
                methods.CUDA if held and held[0] and held[0][0] is not None and device.holds(held[0][0]) else key[0],
                key[1],
            ): (
                held,
                *rest,
            )
            for key, (held, *rest) in found.items()
        }

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", grouped)
    # not `run`, which a program's own threads replace
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(bootstrap)
    def started(self: threading.Thread) -> None:
        with _mode(device):
            bootstrap(self)

    patches.set(threading.Thread, "_bootstrap_inner", started)


def _mode(device: Machine) -> DeviceMode:
    if not device.fake:
        return DeviceMode(device)
    from graphlint.runtime.emulate.fake import FakeDeviceMode, FakeMachine

    assert isinstance(device, FakeMachine)
    return FakeDeviceMode(device)


@contextlib.contextmanager
def emulated(version: tuple[int, int] = (2, 11), survey: bool = False, fake: bool = False) -> Iterator[Machine]:
    """An emulated CUDA device for the code inside; torch is as before afterwards.

    Args:
        version: the torch version whose behaviour is followed where versions differ.
        survey: answer what a capture refuses, and only note it.
        fake: tensors without values, for models that do not fit; a survey, too.
    """
    if fake:
        from graphlint.runtime.emulate.fake import FakeMachine

        device: Machine = FakeMachine(version)
    else:
        device = Machine(version, survey)
    machine._CURRENT.append(device)
    rng._default.clear()
    graph.graph.default_capture_stream = None
    patches = Patches()
    try:
        _apply(device, patches)
        with _mode(device):
            try:
                yield device
            finally:
                device.flush(None)
    finally:
        device.closing = True
        device.lock.acquire()  # never given back: threads that go on must not meet torch's own functions amid a call
        patches.undo()
        machine._CURRENT.remove(device)
