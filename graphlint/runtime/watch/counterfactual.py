"""What a graph would have given with something else in an input: it is replayed twice aside, and all is put back."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from graphlint.runtime.emulate.machine import Machine, aside
from graphlint.runtime.emulate.storages import storage_of as _storage_of

#: More elements are not changed.
MAX_CHANGED = 200_000
#: Of what an input was given, so many elements are looked at for one that differs from the padding.
MAX_LOOKED_AT = 256
_COMPARES = frozenset(f"aten::{n}" for n in ["eq", "ne", "gt", "ge", "lt", "le", "logical_not", "nonzero"])
#: Which part of an output the program looks at, for the output's shape: an axis and how far; None for all of it.
Part = Callable[[tuple[int, ...]], "tuple[int, int] | None"]


def states(graph: Any) -> set[int]:
    """Inputs that the graph itself writes: state, not data that is refreshed."""
    found = getattr(graph, "_states", None)
    if found is None:
        from graphlint.runtime.emulate.dispatch import written
        from graphlint.runtime.emulate.fake import FakeCall

        found = set()
        for call in graph.calls:
            if isinstance(call, FakeCall):
                found |= call.writes
            elif hasattr(call, "func"):
                found |= {_storage_of(t).data_ptr() for t in written(call.func, call.args, call.kwargs)}
        graph._states = found
    return found


def rows(total: int, wanted: int) -> Part:
    """The first rows, where rows go in and come out."""
    return lambda shape: (0, wanted) if shape and total and shape[0] == total and wanted < total else None


def along(axis: int, total: int, wanted: int) -> Part:
    """The first places of a sequence, wherever an output has its length."""

    def part(shape: tuple[int, ...]) -> tuple[int, int] | None:
        if axis < len(shape) and shape[axis] == total:
            return axis, wanted
        return (shape.index(total), wanted) if total in shape else None

    return part


def matters(
    machine: Machine, graph: Any, address: int, rest: torch.Tensor, value: bytes, part: Part, kept: bool = True
) -> bool:
    """Whether outputs differ once the elements of an input that `rest` marks are set to `value`. kept: or state."""
    block = machine.arena.used.get(address)
    if block is None:
        return False
    used = machine.arena.used
    touched = {s: used[s] for s in set(graph.made) | states(graph) if s in used}
    saved = {start: ctypes.string_at(b.start, b.wanted) for start, b in touched.items()}
    saved[address] = ctypes.string_at(block.start, block.wanted)
    generator = torch.default_generator.get_state()
    device = [g.get_state() for g in torch.cuda.default_generators]

    def back() -> None:
        for start, content in saved.items():
            ctypes.memmove(start, content, len(content))
        _reseed(generator, device)

    before = _results(machine, graph, touched, part, kept)
    back()
    places = rest.nonzero().flatten().tolist()
    if len(places) < MAX_CHANGED:
        for place in places:
            ctypes.memmove(address + place * len(value), value, len(value))
    after = _results(machine, graph, touched, part, kept)
    back()
    return before != after


def _results(machine: Machine, graph: Any, touched: dict[int, Any], part: Part, kept: bool) -> list[bytes]:
    """What the program can see: outputs that are alive, and state."""
    found = []
    ghosts = {_storage_of(g).data_ptr(): g for c in graph.calls for _, g in c.made}
    with aside():
        for call in graph.calls:
            call.run(machine)
        for start, block in touched.items():
            if start not in machine.owners or not (kept or start in graph.made):
                continue
            ghost = ghosts.get(start) if start in graph.made else None
            cut = part(tuple(ghost.shape)) if ghost is not None else None
            if ghost is None or cut is None:
                found.append(ctypes.string_at(block.start, block.wanted))
            else:
                seen = ghost.narrow(cut[0], 0, cut[1]).contiguous()
                found.append(ctypes.string_at(seen.data_ptr(), seen.numel() * seen.element_size()))
    return found


def another_token(graph: Any, address: int, element: int, given: torch.Tensor, padded: torch.Tensor) -> bytes | None:
    """For an input of token numbers, one of those that it was given that is not the padding. None for other inputs, and
    where the graph knows its padding: it compares the numbers, or the embedding leaves that number out."""
    first = padded.nonzero().flatten()[0].item()
    padding = ctypes.string_at(address + int(first) * element, element)
    embeds = False
    for call in graph.calls:
        if not any(_storage_of(g).data_ptr() == address for g in call.sources):
            continue
        if call.name in _COMPARES:
            return None
        if call.name == "aten::embedding":
            left_out = call.args[2] if len(call.args) > 2 else call.kwargs.get("padding_idx", -1)
            if left_out == int.from_bytes(padding, "little", signed=True):
                return None
            embeds = True
    if not embeds:
        return None
    for place in given.nonzero().flatten()[:MAX_LOOKED_AT].tolist():
        value = ctypes.string_at(address + place * element, element)
        if value != padding:
            return value
    return None


def padded_axis(padded: torch.Tensor, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The axis at whose end the padding stands, and where it begins."""
    if padded.numel() != torch.Size(shape).numel():
        return None
    whole = padded.view(shape)
    for axis, total in enumerate(shape):
        others = [a for a in range(len(shape)) if a != axis]
        line = whole.all(dim=others) if others else whole
        begins = total - int(line.sum())
        if 0 < begins < total and bool(line[begins:].all()) and not bool(whole.narrow(axis, 0, begins).any()):
            return axis, begins
    return None


def _reseed(host: torch.Tensor, device: list[torch.Tensor]) -> None:
    torch.default_generator.set_state(host)
    for generator, state in zip(torch.cuda.default_generators, device, strict=True):
        generator.set_state(state)
