"""Calls of objects whose class is not read: layers of torch.nn, wrapped and graphed callables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphlint.fact import Op
from graphlint.interp import capture, externals, torch_objects, tuples
from graphlint.interp.objects import BoundMethod, ClassValue, FunctionValue
from graphlint.interp.tensors import note
from graphlint.knowledge import results
from graphlint.source import Span
from graphlint.value import (
    Instance,
    Sequence,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def call_object(m: Machine, instance: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """Calling an object of torch: a layer, a compiled or graphed function, a decorator."""
    kind = instance.external
    if kind == "torch.compile":
        return capture.call_compiled(m, instance, args, kwargs, span, text)
    if kind == "graphed-callable":
        return capture.call_graphed(m, instance, args, kwargs, span)
    if capture.is_wrapper(m, kind):
        return capture.call_wrapper(m, instance, args, kwargs, span)
    if tuples.is_class(instance):
        return tuples.make(m, instance, args, kwargs, span)
    if "forward" in instance.attrs:
        return m.call(instance.attrs["forward"], args, kwargs, span, text)
    if kind == "torch.nn.Sequential":
        return run_sequential(m, instance.attrs["$items"], args, span)
    if args and isinstance(args[0], (FunctionValue, BoundMethod)) and not kind.startswith("torch.nn."):
        # A decorator, or a context manager used as one.
        function = args[0]
        if kind == "functools.lru_cache" and isinstance(function, FunctionValue):
            return replace(function, memo=True)
        return (
            externals.wrapped(m, function, instance)
            if kind in externals.CONTEXT_CLASSES and isinstance(function, FunctionValue)
            else function
        )
    return _layer(m, instance, args, kwargs, span, text)


def own_forward(m: Machine, module: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """The `forward` that a layer of torch has by its class, whatever was put in its place since."""
    if torch_objects.layer_of(module) == "torch.nn.Sequential":
        return run_sequential(m, module.attrs.get("$items", Unknown()), args, span)
    return _layer(m, module, args, kwargs, span, text)


def call_base(m: Machine, instance: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """An object of a class that was read, whose call is inherited from a class that was not."""
    return _layer(m, instance, args, kwargs, span, text)


def _layer(m: Machine, instance: Instance, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    clean = {k: v for k, v in kwargs.items() if k != "*"}
    given = results.first_tensors([*args, *clean.values()])
    own = torch_objects.own_tensors(instance)
    name = instance.external or (instance.cls.external_bases[0] if isinstance(instance.cls, ClassValue) else "")
    last = name.rpartition(".")[2]
    if not name.startswith("torch."):
        fact = m.emit(Op, span, name=f"{name}.__call__", args=args, kwargs=clean, receiver=instance, text=text)
        m.reads(fact, *args, *clean.values())
        m.unfollowed(span, f"{text}(...)")
        return Unknown(f"{text}()")
    device = results.joint_device(given + own if given and given[0].device == "?" else given or own)
    tracked = m.grad_enabled() and any(t.requires_grad or t.grad_graph for t in [*given, *own])
    shape = torch_objects.forward_shape(last, instance, given[0]) if given else None
    dtype = own[0].dtype if own and own[0].dtype else given[0].dtype if given and last not in ("Embedding",) else None
    result: Value = m.tensor(span, device=device, shape=shape, dtype=dtype, grad_graph=tracked)
    if last in ("LSTM", "GRU", "RNN", "MultiheadAttention"):
        state = m.tensor(span, device=device, grad_graph=tracked)
        hidden: Value = m.sequence("tuple", [state, state]) if last == "LSTM" else state
        result = m.sequence("tuple", [result, hidden])
    fact = m.emit(
        Op, span, name=f"{name}.forward", args=args, kwargs=clean, receiver=instance, result=result, text=f"{text}()"
    )
    m.reads(fact, *args, *clean.values(), *own)
    note(m, result, fact)
    return result


def run_sequential(m: Machine, items: Value, args: Args, span: Span) -> Value:
    """Each layer is given what the one before gave."""
    value: Value = args[0] if args else Unknown()
    if not isinstance(items, Sequence):
        return m.tensor(span)
    for layer in [*items.items, *([items.rest] if items.rest is not None else [])]:
        result = m.call(layer, (value,), {}, span, "layer")
        value = result if not isinstance(result, Unknown) else m.tensor(span, sure=False)
    return value
