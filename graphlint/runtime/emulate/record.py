"""One aten call, kept so that it can run again into the same addresses."""

from __future__ import annotations

from typing import Any

import torch

from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.emulate.storages import storage_of as _storage_of
from graphlint.runtime.emulate.streams import Line

Tensor = torch.Tensor


def tensors_in(args: Any, kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors among the arguments of an aten call, lists looked into."""
    found: list[Tensor] = []
    for value in args:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, torch.Tensor)]
    for value in kwargs.values():
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [v for v in value if isinstance(v, torch.Tensor)]
    return found


def flat(out: Any) -> list[Tensor]:
    if isinstance(out, torch.Tensor):
        return [out]
    if isinstance(out, (list, tuple)):
        return [t for o in out for t in flat(o)]
    return []


class Recorded:
    """`args` and `kwargs` hold ghosts in place of device tensors; `made` are ghosts of the fresh outputs, by place."""

    __slots__ = ("args", "count", "func", "generator", "kwargs", "line", "made", "name", "sources", "waits")

    def __init__(
        self,
        machine: Machine,
        func: Any,
        args: Any,
        kwargs: dict[str, Any],
        out: Any,
        fresh: set[int],
        line: Line,
        count: int,
    ) -> None:
        self.func, self.line, self.count, self.waits = func, line, count, True
        self.name: str = func._schema.name
        ghosts: dict[int, Tensor] = {}

        def keep(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                if id(value) not in ghosts:
                    ghosts[id(value)] = self._argument(machine, value)
                return ghosts[id(value)]
            if isinstance(value, (list, tuple)):
                return [keep(v) for v in value]
            return value

        self.args = [keep(v) for v in args]
        self.kwargs = {k: keep(v) for k, v in kwargs.items()}
        self.made = [
            (place, machine.ghost(t)) for place, t in enumerate(flat(out)) if _storage_of(t).data_ptr() in fresh
        ]
        self.sources = [g for g in ghosts.values() if machine.holds(g)]

    @staticmethod
    def _argument(machine: Machine, value: Tensor) -> Tensor:
        if value.layout is not torch.strided:
            return value
        if machine.holds(value):
            return machine.ghost(value)
        if value.dim() == 0 and not machine.is_pinned(value):
            return value.detach().clone()  # passed by value: what it holds now is part of the launch
        return value.detach()

    def run(self, machine: Machine) -> None:
        """Does the work, now."""
        out = self.func(*self.args, **self.kwargs)
        if not self.made:
            return
        if isinstance(out, torch.Tensor):
            self.made[0][1].copy_(out)
        else:
            results = flat(out)
            for place, target in self.made:
                target.copy_(results[place])
