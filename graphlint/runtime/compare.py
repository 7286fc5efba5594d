"""Captures one callable and compares its replays with eager calls on fresh inputs."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

Tensor = torch.Tensor


class Differs(AssertionError):
    """A replay gave something else than the eager call on the same inputs."""


def reach(function: Any, inputs: Iterable[Any] = ()) -> None:
    """Moves the modules and tensors that a callable reaches (itself, its object, closure, globals it names) to the
    GPU."""
    seen: set[int] = set()
    stack: list[Any] = [function, *inputs]
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, torch.nn.Module):
            one.cuda()
        elif isinstance(one, torch.Tensor):
            if not one.is_cuda and one.is_leaf:
                one.data = one.data.cuda()
        elif isinstance(one, types.MethodType):
            stack += [one.__self__, one.__func__]
        elif isinstance(one, types.FunctionType):
            stack += [c.cell_contents for c in one.__closure__ or () if _filled(c)]
            stack += [
                one.__globals__[n] for n in one.__code__.co_names if n in one.__globals__ and _holds(one.__globals__[n])
            ]
            stack += list(one.__defaults__ or ())
        elif isinstance(one, (list, tuple, set)):
            stack += list(one)
        elif isinstance(one, dict):
            stack += list(one.values())
        elif hasattr(one, "__dict__") and not isinstance(one, (type, types.ModuleType)):
            stack += list(vars(one).values())


def _filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  (an empty cell raises)
    except ValueError:
        return False
    return True


def _holds(value: Any) -> bool:
    return not isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)) and not (
        isinstance(value, types.FunctionType) and value.__module__.startswith("torch")
    )


def capture_and_compare(function: Callable[..., Any], inputs: Sequence[Any], replays: int = 2) -> Any:
    """Warms `function` up on a side stream, captures it, and replays it on fresh inputs.

    Raises:
        Differs: a replay and the eager call on the same inputs disagree; not checked where the function draws random
            numbers or changes state (two eager calls on the same inputs differ, too).
    """
    static = [
        i.detach().clone().requires_grad_(i.requires_grad) if isinstance(i, Tensor) and i.is_cuda else i for i in inputs
    ]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function(*static)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = function(*static)
    for turn in range(replays):
        if turn:
            with torch.no_grad():
                for value in static:
                    if isinstance(value, Tensor) and value.is_floating_point() and value.numel() > 1:
                        value.copy_(value.roll(1, 0) if value.dim() else value)
        graph.replay()
    torch.cuda.synchronize()
    got = [t.detach().clone() for t in _tensors(out)]
    first, second = (_eager(function, static) for _ in range(2))
    if _agree(first, second) and not _agree(got, first):
        raise Differs("the replay differs from the eager call on the same inputs")
    return out


def _eager(function: Callable[..., Any], inputs: Sequence[Any]) -> list[Tensor]:
    return [t.detach().clone() for t in _tensors(function(*inputs))]


def _agree(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def _tensors(value: Any) -> list[Tensor]:
    return [t for t in torch.utils._pytree.tree_leaves(value) if isinstance(t, Tensor)]
