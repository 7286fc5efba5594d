"""A function of torch: its result by the tables, the memory that it writes, the device that it makes tensors on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphlint.fact import Op, Write
from graphlint.interp import (
    backward,
    iteration,
)
from graphlint.interp.tensors import made_value, note, wanted_device
from graphlint.knowledge import results
from graphlint.source import Span
from graphlint.value import (
    Const,
    Device,
    Host,
    Sequence,
    Tensor,
    Unknown,
    Value,
    options,
)

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine
Args = tuple[Value, ...]
Kwargs = dict[str, Value]


def call_function(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span, text: str) -> Value:
    """A torch function: its result by the tables; unknown functions of tensors give a new tensor."""
    found = results.infer(name, None, args, kwargs)
    given = results.first_tensors([*args, *kwargs.values()])
    base = given[0] if given else None
    if found is not None:
        device = _device(m, name, found.device, kwargs, bool(given))
        if device != found.device:
            found = results.Result(found.kind, device, found.shape, found.dtype, found.base, found.count)
        result = made_value(m, found, base, name.rpartition(".")[2], args, kwargs, span)
        if name == "torch.equal" or name == "torch.allclose":
            result = Host("read", "bool", m.location(span))
    elif name.rpartition(".")[0] in ("torch.distributed", "torch.distributed.distributed_c10d"):
        result = Unknown("work")  # a collective writes into what it is given, and hands back a handle or None
    elif given:
        tracked = m.grad_enabled() and any(t.requires_grad or t.grad_graph for t in given)
        result = m.tensor(
            span, device=results.joint_device(given), grad_graph=tracked, sure=not name.startswith("torch.ops.")
        )
    else:
        last = name.rpartition(".")[2]
        result = Unknown(f"{last}()")
        if name.startswith(("torch.nn.functional.", "torch.nn.init.")) and args:
            result = m.tensor(span, sure=False)
    fact = m.emit(Op, span, name=name, args=args, kwargs=kwargs, result=result, text=text)
    m.reads(fact, *args, *kwargs.values())
    if name == "torch.autograd.backward":
        m.fill_grads()
    if name in ("torch.autograd.backward", "torch.autograd.grad"):
        backward.run(m, span, accumulates=name != "torch.autograd.grad")
    last = name.rpartition(".")[2]
    if last.startswith("_foreach_") and last.endswith("_"):
        _write_each(m, last.removeprefix("_foreach_"), args, span)
    elif last.endswith("_") and not last.endswith("__") and base is not None:
        how = results.INITIALISERS.get(last, last) if name.startswith("torch.nn.init.") else last
        write = m.emit(Write, span, target=base, how=how, source=args[1] if len(args) > 1 else None, text=text)
        m.writes(write, base)
    if "out" in kwargs and any(isinstance(o, Tensor) for o in options(kwargs["out"])):
        write = m.emit(Write, span, target=kwargs["out"], how="out=", source=base, text=text)
        m.writes(write, kwargs["out"])
    note(m, result, fact)
    return result


def _write_each(m: Machine, how: str, args: Args, span: Span) -> None:
    """`torch._foreach_copy_(targets, sources)`: each target is written as its own method would do it."""
    targets = iteration.elements(m, args[0]) if args else []
    more = args[1] if len(args) > 1 else None
    sources = iteration.elements(m, more) if isinstance(more, Sequence) else []
    for index, value in enumerate(targets):
        target = next((o for o in options(value) if isinstance(o, Tensor)), None)
        if target is not None:
            source = sources[index] if len(sources) == len(targets) else more
            text = f"{target.place.name}.{how}()" if target.place is not None else ""
            m.writes(m.emit(Write, span, target=target, how=how, source=source, text=text), target)


def _device(m: Machine, name: str, device: Device, kwargs: Kwargs, has_tensors: bool) -> Device:
    """Factories without `device=` follow the default device in force."""
    from graphlint.knowledge.factories import FACTORIES

    if "device" in kwargs and not (isinstance(kwargs["device"], Const) and kwargs["device"].value is None):
        return wanted_device(m, kwargs["device"]) or device
    if name in FACTORIES and not has_tensors and device in ("cpu", "?") and FACTORIES[name].shape != "like":
        return m.default_device
    return device
