"""Backward in a capture: each node runs on the stream of its forward call, also when that was the default stream."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from graphlint.runtime.emulate import texts
from graphlint.runtime.emulate.machine import Machine


def _nodes(roots: Iterable[Any]) -> Iterable[Any]:
    seen: set[int] = set()
    stack = [r for r in roots if r is not None]
    keep = []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        keep.append(node)
        yield node
        stack += [n for n, _ in node.next_functions if n is not None]


def check(machine: Machine, tensors: Any, leaves: bool) -> None:
    """Refuses a captured backward that has to run nodes on the default stream."""
    if not machine.capturing() or _overridden():
        return
    if isinstance(tensors, torch.Tensor):
        tensors = (tensors,)
    leaf = ""
    for node in _nodes(getattr(t, "grad_fn", None) for t in tensors):
        name = node.name()
        if name.endswith("AccumulateGrad"):
            if leaves and node.metadata.get("graphlint_stream", -1) == 0:
                leaf = name
        elif machine.stream_at(node._sequence_nr()) == 0:
            made = machine.here.forward_sites.get(node._sequence_nr(), ())
            machine.refuse("autograd", "forward", _text(machine, name), name, made_at=made)
            return
    if leaf:
        machine.refuse("autograd", "accumulate", _text(machine, leaf), leaf)


def _text(machine: Machine, node: str) -> str:
    return texts.STALE_NODE.format(node) if machine.version >= (2, 13) else texts.IMPLICIT


def _overridden() -> bool:
    probe = getattr(torch.autograd.graph, "_override_stale_capture_stream", None)
    return bool(probe() if callable(probe) else probe)


def patches(machine: Machine) -> dict[str, Any]:
    """The functions of torch.autograd to put in place."""

    def wrap(raw: Callable[..., Any], leaves: bool) -> Callable[..., Any]:
        @functools.wraps(raw)
        def run(*args: Any, **kwargs: Any) -> Any:
            if machine.capturing():
                roots = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
                check(machine, roots, leaves)
                machine.note("captured-backward", machine.capture.number)
            return raw(*args, **kwargs)

        return run

    return {"backward": wrap(torch.autograd.backward, True), "grad": wrap(torch.autograd.grad, False)}
