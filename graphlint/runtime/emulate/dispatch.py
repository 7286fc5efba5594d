"""Every aten call passes here: what it touches on the device, whether a capture allows it, where its output lies."""

from __future__ import annotations

import functools
import threading
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from graphlint.runtime import events, frames
from graphlint.runtime.emulate import refusals, rng, texts
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.record import Recorded, flat, tensors_in
from graphlint.runtime.emulate.storages import storage_of as _storage_of

Tensor = torch.Tensor
aten = torch.ops.aten

#: Calls that change arguments which their schema does not name.
_HIDDEN_WRITES = {
    "aten::native_batch_norm": (3, 4),
    "aten::cudnn_batch_norm": (3, 4),
    "aten::miopen_batch_norm": (3, 4),
}
#: Made by torch's own C++ code for its inputs' device, unless Python called the factory itself.
_FACTORIES = frozenset(
    f"aten::{n}"
    for n in [
        "scalar_tensor",
        "full",
        "ones",
        "zeros",
        "empty",
        "arange",
        "linspace",
        "eye",
        "empty_strided",
        "tril_indices",
    ]
)
_MUTATES: dict[Any, tuple[tuple[int, str], ...]] = {}


def written(func: Any, args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that a call changes in place."""
    spots = _MUTATES.get(func)
    if spots is None:
        spots = tuple(
            (place, a.name)
            for place, a in enumerate(func._schema.arguments)
            if a.alias_info is not None and a.alias_info.is_write
        ) + tuple((place, "") for place in _HIDDEN_WRITES.get(func._schema.name, ()))
        _MUTATES[func] = spots
    found: list[Tensor] = []
    for place, name in spots:
        value = kwargs[name] if name in kwargs else args[place] if place < len(args) else None
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, torch.Tensor)]
    return found


@functools.cache
def _is_composite(func: Any) -> bool:
    """True for an operator that is written in terms of others, which autograd takes apart before it gets here."""
    has = getattr(func, "has_kernel_for_dispatch_key", None)
    return has is not None and bool(has(torch._C.DispatchKey.CompositeImplicitAutograd))


class DeviceMode(TorchDispatchMode):
    """Runs calls on device memory as the GPU would: at once, behind pending work, or into a capture."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.machine = machine

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # compiled regions run as the functions they wrap, and importing dynamo takes a second

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        machine, kwargs = self.machine, kwargs or {}
        if torch.is_inference_mode_enabled() and _is_composite(func):
            # Without autograd nothing has taken it apart yet: `item` is no read, `linear` no product.
            with self:
                return func.decompose(*args, **kwargs)
        given = tensors_in(args, kwargs)
        base, end = machine.arena.base, machine.arena.end
        held: list[Tensor] = []
        try:
            for t in given:
                if base <= _storage_of(t).data_ptr() < end:
                    held.append(t)
        except (RuntimeError, NotImplementedError):
            return func(*args, **kwargs)
        here = machine.here
        target = here.target
        if not held and target is None:
            if (machine.on_host_write or machine.on_host_read) and given:
                changes = written(func, args, kwargs)
                for host_watcher in machine.on_host_write if changes else ():
                    host_watcher(changes)
                for host_watcher in machine.on_host_read:
                    host_watcher([t for t in given if not any(t is c for c in changes)])
            if machine.capture is not None and torch.Tag.nondeterministic_seeded in func.tags:
                machine.note("host-random", machine.capture.number, call=func._schema.name)
            out = func(*args, **kwargs)
            if not here.explicit and (
                func._schema.name in _FACTORIES if not given else all(machine.is_number(t) for t in given)
            ):
                for t in flat(out):
                    machine.number(t)
            return out
        with machine.lock:
            if machine.poisoned and held:
                self._check_poison(held)
            if machine.stale and held:
                self._check_stale(held)
            name = func._schema.name
            line = machine.current_stream().line
            capture = line.capture
            refusals.check(machine, func, name, args, kwargs, given, held)
            if name in refusals.READS:
                machine.flush(line.clock)
                machine.check()
                return self._read(func, name, args, kwargs)
            if target == "cpu" or (
                name == "aten::copy_" and len(held) < len(given) and given and given[0] is not held[0]
            ):
                return self._to_host(func, name, args, kwargs, held, line)
            changes = written(func, args, kwargs)
            waits = bool(machine.pending) and capture is None and not machine.fake and machine.behind_pending(line)
            if (
                waits
                and len(held) < len(given)
                and any(not machine.holds(t) and t.dim() > 0 and not machine.is_pinned(t) for t in given)
            ):
                machine.flush(line.clock)  # a copy from pageable memory makes the host wait
                waits = False
            if capture is not None:
                for t in held:
                    start = _storage_of(t).data_ptr()
                    if start not in capture.reads and start not in capture.own:
                        capture.reads[start] = events.Static.of(t)
            if capture is not None and not machine.fake:
                for t in changes:
                    if machine.holds(t):
                        capture.remember(t)
            if capture is None and changes:
                for before in machine.before_change:
                    before(changes)
            saved = None
            if waits:
                saved = [(t, bytes(_bytes(t))) for t in changes if machine.holds(t)]
            func, args, kwargs = rng.prepare(machine, func, name, args, kwargs)
            fresh: set[int] = set()
            out = self._do(func, name, args, kwargs, given, fresh)
            count = machine.counts[line.id] = line.tick()
            if (
                line.id == 0
                and machine.capture is None
                and torch.is_grad_enabled()
                and any(t.requires_grad for t in held)
            ):
                sites = here.forward_sites
                if len(sites) > 20_000:
                    sites.clear()
                sites[torch._C._autograd._get_sequence_nr() - 1] = frames.user_sites(4)
            if torch._C._current_autograd_node() is None and torch.is_grad_enabled():
                bind_leaves(machine, held)
            beside = machine.capture if capture is None and changes else None
            # another thread's work is none of the capture's
            if beside is not None and beside.origin is not line and beside.thread == threading.get_ident():
                machine.note("ran-outside", beside.number, stream=line.id)
            if capture is not None:
                if fresh or changes:
                    capture.calls.append(self._record(func, args, kwargs, out, fresh, line, count))
                self._log(name, args, kwargs, held, changes, fresh, capture.number, line.id)
            elif waits and (fresh or changes):
                machine.pending.append(Recorded(machine, func, args, kwargs, out, fresh, line, count))
                for t, content in saved or ():
                    _restore(t, content)
            here.arguments = args
            made = [t for t in flat(out) if _storage_of(t).data_ptr() in fresh] if fresh else []
            if capture is not None:
                for t in made:
                    capture.makes[_storage_of(t).data_ptr()] = events.Static.of(t)
            for watcher in machine.on_call:
                watcher(func, name, held, changes, made, line.id)
            here.arguments = ()
            return out

    def _do(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], given: list[Tensor], fresh: set[int]) -> Any:
        """Runs the call; what it makes lies on the device, and `fresh` gets its addresses."""
        with rng.state(self.machine, func, name, kwargs):
            out = func(*args, **kwargs)
        return self._place(out, given, fresh)

    def _read(self, func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> Any:
        """What the host reads."""
        return func(*args, **kwargs)

    def _record(
        self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, fresh: set[int], line: Any, count: int
    ) -> Any:
        return Recorded(self.machine, func, args, kwargs, out, fresh, line, count)

    def _place(self, out: Any, given: list[Tensor], fresh: set[int]) -> Any:
        """Moves fresh outputs into device memory; `fresh` gets their addresses."""
        machine = self.machine
        if isinstance(out, torch.Tensor):
            if out.layout is not torch.strided:
                return out
            source = _storage_of(out)
            address = source.data_ptr()
            if machine.arena.base <= address < machine.arena.end:
                return out
            for t in given:
                if t is out or (t.layout is torch.strided and _storage_of(t)._cdata == source._cdata):
                    return out
            placed = machine.place(out, "call")
            fresh.add(_storage_of(placed).data_ptr())
            return placed
        if isinstance(out, (list, tuple)):
            shared: dict[int, Any] = {}
            made = []
            for o in out:
                if isinstance(o, torch.Tensor) and o.layout is torch.strided:
                    key = _storage_of(o)._cdata
                    if key in shared:
                        made.append(machine.over(shared[key], o))
                        continue
                    placed = self._place(o, given, fresh)
                    if placed is not o:
                        shared[key] = _storage_of(placed)
                    made.append(placed)
                else:
                    made.append(self._place(o, given, fresh))
            return type(out)(made) if not hasattr(out, "_fields") else type(out)(*made)
        return out

    def _to_host(self, func: Any, name: str, args: Any, kwargs: dict[str, Any], held: list[Tensor], line: Any) -> Any:
        """A copy from the device to the host."""
        machine = self.machine
        capture = line.capture
        quick = bool(kwargs.get("non_blocking") or (name == "aten::copy_" and len(args) > 2 and args[2]))
        if not quick:
            machine.flush(line.clock)
            machine.check()
            return func(*args, **kwargs)
        out = func(*args, **kwargs)
        count = line.tick()
        if name == "aten::copy_" and machine.is_pinned(args[0]):
            if capture is not None:
                capture.calls.append(Recorded(machine, func, args, kwargs, None, set(), line, count))
            elif machine.pending and machine.behind_pending(line):
                machine.pending.append(Recorded(machine, func, args, kwargs, None, set(), line, count))
        return out

    def _check_poison(self, held: list[Tensor]) -> None:
        for t in held:
            known = self.machine.poisoned.get(_storage_of(t)._cdata)
            if known is not None:
                self.machine.note("poisoned-access", site=known[1])
                self.machine.refuse("overwritten", "access", known[0], invalidates=False)

    def _check_stale(self, held: list[Tensor]) -> None:
        machine = self.machine
        for t in held:
            known = machine.stale.get(id(t))
            if known is not None and known[0]() is t:
                machine.note("compile-stale-read", site=known[1])

    def _log(
        self, name: str, args: Any, kwargs: Any, held: Any, changes: Any, fresh: set[int], graph: int, stream: int
    ) -> None:
        machine = self.machine
        machine.log(
            events.Call,
            graph=graph,
            name=name,
            reads=tuple({machine.address(t) for t in held}),
            writes=tuple({machine.address(t) for t in changes if machine.holds(t)}),
            made=tuple(fresh),
            scalars=tuple(v for v in (*args, *kwargs.values()) if isinstance(v, (bool, int, float)))
            + tuple(tuple(v) for v in args if isinstance(v, (list, tuple)) and v and isinstance(v[0], int)),
            stream=stream,
        )


_KEYS = torch._C.DispatchKey
_AUTOGRAD = [
    getattr(_KEYS, n)
    for n in ("AutogradCPU", "AutogradFunctionality", "ADInplaceOrView", "AutogradOther")
    if hasattr(_KEYS, n)
]


def bind_leaves(machine: Machine, held: list[Tensor]) -> None:
    """Binds the gradient accumulators of leaves that are used for the first time to the stream that is current."""
    leaves = [t for t in held if t.requires_grad and t.is_leaf]
    if not leaves:
        return
    hidden = torch._C._dispatch_tls_local_exclude_set()
    for key in _AUTOGRAD:
        hidden = hidden.remove(key)
    with torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), hidden):
        for t in leaves:
            function = t.view_as(t).grad_fn
            if function is not None:
                node: Any = function.next_functions[0][0]
                node.metadata.setdefault("graphlint_stream", machine.current_stream().line.id)


def _bytes(t: Tensor) -> Any:
    import ctypes

    storage = _storage_of(t)
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


def _restore(t: Tensor, content: bytes) -> None:
    import ctypes

    ctypes.memmove(_storage_of(t).data_ptr(), content, len(content))


__all__ = ["DeviceMode", "texts", "written"]
