"""Settings that a graph freezes (train or eval, autocast, optimizer numbers), weights cast before the capture,
statistics
that a warm-up moves, captures that failed or were never replayed."""

from __future__ import annotations

import ctypes
import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.syntax import statement_at
from graphlint.runtime.watch.journal import Activation, Journal, Step, Watcher

_TRAINING_OPS = frozenset(
    {"aten::bernoulli_", "aten::native_dropout", "aten::native_batch_norm", "aten::rrelu_with_noise"}
)
_LOWERED = frozenset(
    f"aten::{n}" for n in ["mm", "addmm", "bmm", "baddbmm", "convolution", "linear", "matmul", "_convolution"]
)


@dataclass(slots=True)
class Cast:
    """A weight that autocast cast, and keeps, before the capture."""

    weight: int
    context: Any
    made: int


@dataclass(slots=True)
class Frozen:
    """What was set when a graph was captured."""

    number: int
    graph: weakref.ref[Any]
    autocast: bool
    lowered: bool
    modules: list[tuple[weakref.ref[Any], bool]] = field(default_factory=list)
    optimizers: list[tuple[weakref.ref[Any], list[dict[str, Any]]]] = field(default_factory=list)
    inputs: set[int] = field(default_factory=set)
    casts: dict[int, Cast] = field(default_factory=dict)
    """What it reads of weights that autocast cast before the capture, by address."""


class Modes(Watcher):
    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.frozen: dict[int, Frozen] = {}
        self.casts: dict[int, Cast] = {}
        self.flips: list[tuple[weakref.ref[Any], frames.Site | None]] = []
        self.optimizer_sites: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self.last_write: dict[int, int] = {}
        self.autocasts: list[tuple[int, frames.Site | None, bool]] = []
        self._modules: dict[int, list[tuple[weakref.ref[Any], bool]]] = {}
        self._optimizers: dict[int, list[tuple[weakref.ref[Any], list[dict[str, Any]]]]] = {}
        self._names: dict[int, set[str]] = {}
        self.host_steps: dict[int, frames.Site | None] = {}
        """Captured steps of optimizers that count them on the host and use the count."""
        self._autocast: dict[int, bool] = {}
        self.reloads: list[tuple[set[int], frames.Site | None]] = []
        """Where optimizers loaded a state, and the addresses of what it took the place of."""
        self._buffers: list[tuple[weakref.ref[Any], bytes]] = []
        self._graphed: frames.Site | None = None
        """Where callables were graphed whose statistics that moved; they may be put back."""
        machine.on_call.append(self._call)
        machine.on_graph.append(self._graph)
        machine.on_replay.append(self._replay)
        machine.listeners.append(self.noted)
        self._undo: list[Any] = []
        self._patch()

    # ------------------------------------------------------------ hooks into torch
    def _patch(self) -> None:
        optimizer = torch.optim.Optimizer
        begin, train, reload = optimizer.__init__, torch.nn.Module.train, optimizer.load_state_dict
        sites, flips = self.optimizer_sites, self.flips

        def init(this: Any, *args: Any, **kwargs: Any) -> None:
            begin(this, *args, **kwargs)
            sites[this] = frames.in_user_code(frames.user_sites())

        def flip(this: Any, mode: bool = True) -> Any:
            if this.training != mode and frames.user_frame() is not None:
                caller = sys._getframe(1).f_code.co_filename
                if "nn/modules/module.py" not in caller.replace("\\", "/") or sys._getframe(1).f_code.co_name == "eval":
                    flips.append((weakref.ref(this), frames.in_user_code(frames.user_sites())))
            return train(this, mode)

        def load(this: Any, state_dict: Any) -> None:
            before = {
                _storage_of(t).data_ptr()
                for state in this.state.values()
                for t in state.values()
                if isinstance(t, torch.Tensor) and self.machine.holds(t)
            }
            reload(this, state_dict)
            if before:
                self.reloads.append((before, frames.in_user_code(frames.user_sites())))

        optimizer.load_state_dict = load  # type: ignore[method-assign,assignment]
        optimizer.__init__ = init  # type: ignore[method-assign,assignment]
        torch.nn.Module.train = flip  # type: ignore[method-assign,assignment]
        handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

        def undo() -> None:
            optimizer.load_state_dict = reload  # type: ignore[method-assign]
            optimizer.__init__ = begin  # type: ignore[method-assign]
            torch.nn.Module.train = train  # type: ignore[method-assign]
            for handle in handles:
                handle.remove()

        self._undo.append(undo)

    def finish(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()
        self._settled()

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        machine = self.machine
        if machine.capture is None or not machine.capturing():
            return
        numbers = [
            {k: v for k, v in group.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
            for group in optimizer.param_groups
        ]
        self._optimizers.setdefault(machine.capture.number, []).append((weakref.ref(optimizer), numbers))
        if type(optimizer) is torch.optim.Adagrad and any(group["lr_decay"] for group in optimizer.param_groups):
            self.host_steps[machine.capture.number] = frames.in_user_code(frames.user_sites())
        optimizer._graphlint_states = sum(len(s) for s in optimizer.state.values())

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        machine = self.machine
        before = getattr(optimizer, "_graphlint_states", None)
        if machine.capture is None or not machine.capturing() or before is None:
            return
        if sum(len(s) for s in optimizer.state.values()) > before:
            machine.note("optimizer-state-born", machine.capture.number)

    # ------------------------------------------------------------ captures
    def _call(self, func: Any, name: str, held: list[Any], changes: list[Any], fresh: list[Any], stream: int) -> None:
        machine = self.machine
        capture = machine.capture
        if capture is not None and machine.capturing():
            number = capture.number
            if number not in self._names:
                self._names[number] = set()
                self._autocast[number] = bool(self.autocasts)
            self._names[number].add(name)
            if name in _TRAINING_OPS:
                module = _module()
                if module is not None and module.training:
                    self._modules.setdefault(number, []).append((weakref.ref(module), True))
            return
        for t in changes:
            if machine.holds(t):
                self.last_write[_storage_of(t).data_ptr()] = machine.order
        if name == "aten::_to_copy" and fresh and held and self.autocasts and self.autocasts[-1][2]:
            weight = held[0]
            if weight.requires_grad and weight.is_leaf:
                self.casts[_storage_of(fresh[0]).data_ptr()] = Cast(
                    _storage_of(weight).data_ptr(), self.autocasts[0][1], machine.order
                )

    def _graph(self, graph: Any) -> None:
        number, machine = graph.number, self.machine
        self.reloads = [entry for entry in self.reloads if not entry[0] & graph.inputs]
        names = self._names.get(number, set())
        self.frozen[number] = Frozen(
            number,
            weakref.ref(graph),
            self._autocast.get(number, False),
            bool(names & _LOWERED),
            self._modules.pop(number, []),
            self._optimizers.pop(number, []),
            set(graph.inputs),
            # an address that was handed on since holds something else
            {a: c for a, c in self.casts.items() if a in graph.inputs and machine.made.get(a, 0) <= c.made},
        )

    def _replay(self, graph: Any) -> None:
        frozen = self.frozen.get(graph.number)
        if frozen is None:
            return
        machine = self.machine
        for reference, mode in frozen.modules:
            module = reference()
            if module is not None and module.training != mode:
                for flipped, site in reversed(self.flips):
                    root = flipped()
                    if root is not None and any(m is module for m in root.modules()):
                        machine.note("mode-flipped", graph.number, site=site)
                        break
        if not frozen.autocast and frozen.lowered and self.autocasts:
            machine.note("replayed-under-autocast", graph.number, site=self.autocasts[-1][1])
        for optimizer_reference, numbers in frozen.optimizers:
            optimizer = optimizer_reference()
            if optimizer is None or not type(optimizer).__module__.startswith("torch.optim"):
                continue
            for group, old in zip(optimizer.param_groups, numbers, strict=False):
                for key, value in old.items():
                    now = group.get(key)
                    if isinstance(now, (int, float)) and now != value:
                        machine.note(
                            "optimizer-number-changed",
                            graph.number,
                            site=self.optimizer_sites.get(optimizer),
                            text=key,
                            old=value,
                            new=now,
                        )
        for before, site in self.reloads:
            if before & frozen.inputs and frozen.optimizers:
                machine.note("optimizer-state-replaced", graph.number, site=site)
        if graph.number in self.host_steps and graph.replays >= 2:
            machine.note("optimizer-counts-on-host", graph.number, site=self.host_steps[graph.number])
        for address, cast in frozen.casts.items():
            gone = address not in machine.owners or machine.made.get(address, 0) > cast.made
            changed = self.last_write.get(cast.weight, 0) > cast.made
            if gone or changed:
                machine.note("cast-before-capture", graph.number, site=cast.context, gone=gone, changed=changed)

    # ------------------------------------------------------------ autocast, graphed callables: notes of the emulator
    def noted(self, name: str, data: dict[str, Any], at: Any) -> None:
        if name == "autocast-enter" and data.get("enabled"):
            self.autocasts.append((int(data["context"]), data["site"], bool(data["cache"])))
        elif name == "autocast-exit":
            self.autocasts = [a for a in self.autocasts if a[0] != data["context"]]
        elif name == "graphed-callables-begin":
            self._buffers = []
            for function in data["callables"]:
                if isinstance(function, torch.nn.Module):
                    for buffer in function.buffers():
                        if self.machine.holds(buffer):
                            self._buffers.append((weakref.ref(buffer), _content(buffer)))
        elif name == "graphed-callables-end":
            moved = [(r, c) for r, c in self._buffers if (b := r()) is not None and _content(b) != c]
            if moved:
                self._graphed, self._moved = frames.in_user_code(at), moved

    def done(self, step: Step) -> None:
        if self._graphed is not None and step.graph is None and self._restored():
            self._graphed = None

    def _restored(self) -> bool:
        return all((b := r()) is None or _content(b) == c for r, c in self._moved)

    def _settled(self) -> None:
        if self._graphed is not None and not self._restored():
            self.machine.note("statistics-moved", None, site=self._graphed)
            self._graphed = None


class Captures(Watcher):
    """Failures that are swallowed, and captures that take the place of the first call."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self._waiting: list[int] = []
        self.opened: dict[int, tuple[str, int]] = {}
        self.without: dict[str, tuple[int, frames.Site | None]] = {}
        self._sites: dict[int, frames.Site | None] = {}
        machine.on_replay.append(self._replay)
        machine.on_graph.append(self._graph)
        machine.on_call.append(self._call)
        machine.on_failure.append(self._waiting.append)

    def _call(self, func: Any, name: str, held: Any, changes: Any, fresh: Any, stream: int) -> None:
        if self.machine.capture is None and (changes or fresh) and self.journal.running:
            self.journal.running[-1].data["eager"] = True

    def begins(self, step: Step) -> None:
        if self._waiting and step.statement.handler is not None and step.graph is None:
            for number in self._waiting:
                site = frames.Site(step.path, step.statement.handler, frames.qualified(step.frame))
                self.machine.note("failure-handled", number, site=site)
            self._waiting.clear()

    def _graph(self, graph: Any) -> None:
        frame = frames.user_frame()
        for activation in reversed(self.journal.stack):
            if activation.frame is frame:
                activation.data.setdefault("captured", []).append(graph.number)
                step = activation.step
                self._sites[graph.number] = step.site if step is not None else None

    def _replay(self, graph: Any) -> None:
        for activation in self.journal.stack:
            activation.data.setdefault("replayed", set()).add(graph.number)
        if self.journal.stack:
            own = self.journal.stack[-1]
            name = f"{own.frame.f_code.co_filename}:{own.frame.f_code.co_firstlineno}"
            known = self.without.get(name)
            if known is not None and known[0] == graph.number and graph.number not in own.data.get("captured", ()):
                self.machine.note("first-call-not-replayed", graph.number, site=known[1])
                del self.without[name]

    def returned(self, activation: Activation, value: Any) -> None:
        code = activation.frame.f_code
        if code.co_name == "<module>":
            return
        if activation.data.get("eager") and activation.parent is not None:
            activation.parent.data["eager"] = True
        replayed = activation.data.get("replayed", set())
        for number in activation.data.get("captured", ()):
            name = f"{code.co_filename}:{code.co_firstlineno}"
            if number not in replayed and not activation.data.get("eager"):
                self.without[name] = (number, self._sites.get(number))
            else:
                self.without.pop(name, None)


def _content(t: torch.Tensor) -> bytes:
    storage = _storage_of(t)
    return ctypes.string_at(storage.data_ptr(), storage.nbytes())


def _module() -> Any:
    """The innermost torch module whose forward is running."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_name == "forward":
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module):
                return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


__all__ = ["Captures", "Modes", "statement_at"]
