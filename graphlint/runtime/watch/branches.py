"""Branches on what was read from the device, and branches that compute something else while capturing."""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass
from typing import Any

import torch

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine, aside
from graphlint.runtime.watch.journal import Activation, Journal, Step, Watcher

_READS = frozenset({"sync", "dynamic-shape"})


class Reads(Watcher):
    """Follows a refused read through names and returns to the branch that it decides (in a survey)."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        machine.listeners.append(self.noted)

    def noted(self, name: str, data: dict[str, Any], at: Any) -> None:
        step = self.journal.current
        if name == "refused" and data["kind"] in _READS and step is not None:
            step.notes["read"] = True

    def begins(self, step: Step) -> None:
        if step.graph is None or not step.statement.branches:
            return
        tainted = self.journal.stack[-1].data.get("tainted", ())
        if tainted and any(c.root in tainted for c in step.statement.loads):
            self.machine.note("branch-on-read", step.graph, site=step.site)

    def done(self, step: Step) -> None:
        if step.graph is None:
            return
        activation = self.journal.stack[-1] if self.journal.stack else None
        if activation is None or activation.frame is not step.frame:
            return
        tainted = activation.data.setdefault("tainted", set())
        statement = step.statement
        if step.notes.get("read") or (tainted and any(c.root in tainted for c in statement.loads)):
            tainted.update(statement.names)
            if type(statement.node).__name__ == "Return":
                activation.data["reads"] = True
            elif statement.branches and step.notes.get("read"):
                self.machine.note("branch-on-read", step.graph, site=step.site)

    def returned(self, activation: Activation, value: Any) -> None:
        parent = activation.parent
        step = parent.step if parent is not None else None
        if activation.data.get("reads") and step is not None and not isinstance(value, torch.Tensor):
            step.notes["read"] = True


@dataclass(slots=True)
class Answer:
    """What a function made of given inputs. `site` is where it asked whether a capture is under way."""

    site: frames.Site | None
    result: torch.Tensor


class Capturing(Watcher):
    """Compares what a function returns inside and outside a capture, for the same inputs."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.eager: dict[tuple[str, int], Answer] = {}
        self.captured: dict[tuple[str, int], tuple[Answer, int]] = {}
        self.worked: dict[Any, int] = {}
        """Of functions that ask and give nothing back: the work that they launched outside of captures, at most."""
        self.idle: dict[Any, tuple[frames.Site | None, int]] = {}
        machine.listeners.append(self.noted)
        machine.on_call.append(self._call)

    def _call(self, func: Any, name: str, held: Any, changes: Any, fresh: Any, stream: int) -> None:
        for activation in self.journal.running if changes or fresh else ():
            if "asked" in activation.data:
                activation.data["launched"] = activation.data.get("launched", 0) + 1

    def _nothing(self, activation: Activation, asked: Any) -> None:
        """A function that asks and gives nothing back: does it do its work in one case only?"""
        site, _, capture = asked
        code, launched = activation.frame.f_code, activation.data.get("launched", 0)
        if capture is not None and self.machine.capture is capture:
            if not launched:
                self.idle[code] = site, capture.number
        else:
            self.worked[code] = max(self.worked.get(code, 0), launched)
        if code in self.idle and self.worked.get(code):
            place, number = self.idle.pop(code)
            self.machine.note("captured-differently", number, site=place, weak=True)

    def noted(self, name: str, data: dict[str, Any], at: Any) -> None:
        if name == "asked-capturing" and self.journal.running and at and frames.is_user(at[0].path):
            activation = self.journal.stack[-1]
            if "asked" not in activation.data:
                activation.data["asked"] = (
                    frames.in_user_code(at),
                    _inputs(self.machine, activation),
                    self.machine.capture,
                )

    def returned(self, activation: Activation, value: Any) -> None:
        asked = activation.data.get("asked")
        caller = activation.parent
        if asked is not None and isinstance(value, bool) and caller is not None and caller.step is not None:
            # a helper that tells whether a capture is under way: its caller asked
            caller.data.setdefault("asked", (caller.step.site, _inputs(self.machine, caller), asked[2]))
        if asked is not None and value is None:
            self._nothing(activation, asked)
        if (
            asked is None
            or not isinstance(value, torch.Tensor)
            or not self.machine.holds(value)
            or value.numel() > 1 << 18
        ):
            return
        site, inputs, capture = asked
        with aside():
            result = self.machine.ghost(value).clone()
        key = (f"{activation.frame.f_code.co_filename}:{activation.frame.f_code.co_firstlineno}", inputs)
        if capture is not None and self.machine.capture is capture:
            self.captured[key] = (Answer(site, result), capture.number)
        else:
            self.eager[key] = Answer(site, result)
        if key in self.captured and key in self.eager:
            inside, number = self.captured[key]
            outside = self.eager[key].result
            with aside():
                same = inside.result.shape == outside.shape and torch.allclose(
                    inside.result.double(), outside.double(), rtol=1e-2, atol=1e-3, equal_nan=True
                )
            if not same:
                self.machine.note("captured-differently", number, site=inside.site)
                del self.captured[key]


def _inputs(machine: Machine, activation: Activation) -> int:
    """A number for the tensors that a function was given and the parameters of its module."""
    code = activation.frame.f_code
    total = 0
    for name in code.co_varnames[: code.co_argcount]:
        value = activation.frame.f_locals.get(name)
        values = [value]
        if isinstance(value, torch.nn.Module):
            values = [*value.parameters(recurse=False), *value.buffers(recurse=False)]
        for one in values:
            if isinstance(one, torch.Tensor) and machine.holds(one):
                with aside():
                    plain = machine.ghost(one).contiguous()
                total = zlib.crc32(ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()), total)
    return total
