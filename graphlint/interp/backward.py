"""What a backward pass runs besides torch's own work: `backward` of custom Functions, and hooks on tensors.

A capture that holds a backward holds these too. Autograd calls them, so no line of the captured code names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphlint.interp import torch_objects
from graphlint.interp.objects import ClassValue
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Sequence, Tensor, Unknown, Value, options, tensors

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_MODULE = "torch.autograd.function"
FUNCTION_BASES = ("torch.autograd.Function", f"{_MODULE}.Function", f"{_MODULE}.InplaceFunction")
CONTEXT = f"{_MODULE}.FunctionCtx"
MODULE_HOOKS = ("full_backward_pre_hook", "full_backward_hook", "backward_hook")
_TENSOR_HOOKS = ("register_hook", "register_post_accumulate_grad_hook")
#: How many Functions, and how many hooks, of one backward are run.
MOST = 12


def is_function(cls: ClassValue) -> bool:
    """True for a class that derives from torch.autograd.Function."""
    return any(base in FUNCTION_BASES for base in cls.external_bases)


def apply(m: Machine, cls: ClassValue, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """`Cls.apply(...)`: runs `forward`; a later backward runs `backward`."""
    forward, prepare = (m.names.class_attribute(m, cls, name) for name in ("forward", "setup_context"))
    tracked = m.grad_enabled() and any(t.requires_grad or t.grad_graph for a in args for t in tensors(a, 1))
    if forward is None:
        return m.tensor(span, grad_graph=tracked)
    ctx = m.instance_of(External(CONTEXT), span)
    ctx.attrs["$function"] = cls
    if prepare is None:
        result = m.call(forward[0], (ctx, *args), kwargs, span, "forward")
    else:
        result = m.call(forward[0], args, kwargs, span, "forward")
        given = {"inputs": m.sequence("tuple", list(args)), "output": result}
        m.call(prepare[0], (ctx,), given, span, "setup_context")
    if tracked and m.names.class_attribute(m, cls, "backward") is not None:
        ctx.attrs["$result"] = result
        m.store(m.to_differentiate, ctx.id, ctx)
    return _tracked(m, result, tracked, span)


def _tracked(m: Machine, result: Value, tracked: bool, span: Span) -> Value:
    """What `apply` hands back: the results of `forward`, with a graph to go back through."""
    if isinstance(result, Sequence):
        return m.sequence(result.kind, [_tracked(m, item, tracked, span) for item in result.items], result.rest)
    found = next((o for o in options(result) if isinstance(o, Tensor)), None)
    if found is None:
        return m.tensor(span, grad_graph=tracked) if isinstance(result, Unknown) else result
    return Tensor(
        found.storage, found.device, found.shape, found.dtype, found.view, found.requires_grad, tracked, found.sure
    )


def context_method(m: Machine, ctx: Instance, name: str, args: Args) -> Value:
    """Methods of the context that `forward` and `backward` share."""
    if name in ("save_for_backward", "save_for_forward"):
        m.store(ctx.attrs, "$saved", m.sequence("tuple", list(args)))
    return Const(None)


def context_attribute(m: Machine, ctx: Instance, name: str) -> Value | None:
    """`ctx.saved_tensors` and the like; None for a method."""
    if name in ("saved_tensors", "saved_variables"):
        return ctx.attrs.get("$saved") or m.sequence("tuple", [], m.tensor(None, kind="unknown", sure=False))
    return Unknown(name) if name == "needs_input_grad" else None


def register(m: Machine, tensor: Tensor, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """`tensor.register_hook(fn)` and the like; hands back the handle that removes it."""
    from graphlint.interp.hooks import HANDLE

    handle = m.instance_of(External(HANDLE), span)
    function = args[0] if args else kwargs.get("hook")
    if function is not None and not isinstance(function, Unknown):
        handle.attrs |= {"$tensor": tensor, "$function": function, "$kind": Const(name)}
        m.store(m.gradient_hooks, handle.id, handle)
    return handle


def note(m: Machine, handle: Instance, function: Value, kind: str, module: Value | None = None) -> None:
    """A hook of a module, or of every module, that a backward runs."""
    handle.attrs |= {"$module": module or Unknown("module"), "$function": function, "$kind": Const(kind)}
    m.store(m.gradient_hooks, handle.id, handle)


def remove(m: Machine, handle: Instance) -> None:
    """`handle.remove()`."""
    m.remove(m.gradient_hooks, handle.id)


def run(m: Machine, span: Span, accumulates: bool = True) -> None:
    """What one backward runs: Functions, the last one applied first, then the hooks of leaves.

    accumulates: False for `torch.autograd.grad`, which fills no `.grad`.
    """
    for ctx in list(_pending(m)):
        cls = ctx.attrs["$function"]
        backward = m.names.class_attribute(m, cls, "backward") if isinstance(cls, ClassValue) else None
        m.remove(m.to_differentiate, ctx.id)
        if backward is not None:
            result = ctx.attrs.get("$result")
            outputs = result.items if isinstance(result, Sequence) else [result]
            grads = [_gradient(m, o) for o in outputs if o is not None]
            m.call(backward[0], (ctx, *grads), {}, span, "backward")
    kinds = (*MODULE_HOOKS, *(_TENSOR_HOOKS if accumulates else _TENSOR_HOOKS[:1]))
    handles = [h for h in m.gradient_hooks.values() if isinstance(h, Instance)]
    for kind in kinds:
        for handle in [h for h in handles if h.attrs["$kind"].value == kind][:MOST]:  # type: ignore[attr-defined]
            if kind in MODULE_HOOKS:
                _run_module_hook(m, handle, kind, span)
                continue
            tensor = handle.attrs["$tensor"]
            given = _gradient(m, tensor) if kind == "register_hook" else tensor
            m.call(handle.attrs["$function"], (given,), {}, span, "hook")


def _run_module_hook(m: Machine, handle: Instance, kind: str, span: Span) -> None:
    module = handle.attrs["$module"]
    like = next(iter(torch_objects.all_parameters(m, module)), None)
    gradient = m.tensor(None, device="cuda" if like is None else like.device)
    given = m.sequence("tuple", [gradient])
    passed = (given,) if kind.endswith("pre_hook") else (given, given)
    m.call(handle.attrs["$function"], (module, *passed), {}, span, "hook")


def _pending(m: Machine) -> Iterator[Instance]:
    """Functions that were applied and not gone back through yet, the last one first; only this capture's own in one."""
    found = [c for c in reversed(list(m.to_differentiate.values())) if isinstance(c, Instance)]
    return iter(found[:MOST])


def _gradient(m: Machine, of: Value) -> Tensor:
    like = next((o for o in options(of) if isinstance(o, Tensor)), None)
    if like is None:
        return m.tensor(None, device="cuda", sure=False)
    return m.tensor(None, device=like.device, shape=like.shape, dtype=like.dtype, sure=like.sure)
