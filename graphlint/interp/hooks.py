"""Hooks of modules and of optimizers: registered under `$hooks` of the object, run around its calls and its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.interp import backward, torch_objects
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Sequence, Tensor, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_KINDS = {"register_forward_hook": "after", "register_forward_pre_hook": "before"}
#: Of optimizers: `fn(optimizer, args, kwargs)` runs at each step.
OF_STEPS = {"register_step_post_hook": "after", "register_step_pre_hook": "before"}
#: Of every module: `torch.nn.modules.module.register_module_forward_hook(fn)`.
_GLOBAL = {"register_module_forward_hook": "after", "register_module_forward_pre_hook": "before"}
HANDLE = "torch.utils.hooks.RemovableHandle"
#: How many hooks of one module are run.
MOST = 4


def register(m: Machine, module: Instance, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """`module.register_forward_hook(fn)` and the like; hands back the handle that removes it."""
    handle = m.instance_of(External(HANDLE), span)
    function = args[0] if args else kwargs.get("hook")
    kind = _KINDS.get(name) or OF_STEPS.get(name)
    if function is not None and kind is not None and not isinstance(function, Unknown):
        entry = m.sequence("tuple", [Const(kind), function, kwargs.get("with_kwargs", Const(False))])
        held = module.attrs.get("$hooks")
        items = [*(held.items if isinstance(held, Sequence) else []), entry]
        m.store(module.attrs, "$hooks", m.sequence("list", items))
        handle.attrs |= {"$module": module, "$entry": entry}
    if function is not None and name.removeprefix("register_") in backward.MODULE_HOOKS:
        backward.note(m, handle, function, name.removeprefix("register_"), module)
    return handle


def register_global(m: Machine, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value | None:
    """A hook of every module; None if `name` is something else."""
    if not name.startswith("torch.nn.modules.module."):
        return None
    last = name.rpartition(".")[2]
    hidden = last.removeprefix("register_module_")
    if not last.startswith("register_module_") or (last not in _GLOBAL and hidden not in backward.MODULE_HOOKS):
        return None
    handle = m.instance_of(External(HANDLE), span)
    function = args[0] if args else kwargs.get("hook")
    if function is None or isinstance(function, Unknown):
        return handle
    if last in _GLOBAL:
        entry = m.sequence("tuple", [Const(_GLOBAL[last]), function, kwargs.get("with_kwargs", Const(False))])
        handle.attrs["$entry"] = entry
        m.store(m.global_hooks, handle.id, entry)
    else:
        backward.note(m, handle, function, hidden)
    return handle


def of_all(m: Machine, instance: Instance) -> bool:
    """True if there are hooks of every module, and this is one."""
    return bool(m.global_hooks) and torch_objects.is_module(m, instance)


def remove(m: Machine, handle: Instance) -> None:
    """`handle.remove()`."""
    m.remove(m.global_hooks, handle.id)
    module = handle.attrs.get("$module")
    held = module.attrs.get("$hooks") if isinstance(module, Instance) else None
    if isinstance(module, Instance) and isinstance(held, Sequence):
        left = [i for i in held.items if i is not handle.attrs.get("$entry")]
        m.store(module.attrs, "$hooks", m.sequence("list", left))


def around(
    m: Machine, module: Instance, args: Args, kwargs: Kwargs, span: Span, forward: Callable[[Args], Value]
) -> Value:
    """Runs `forward` between the module's hooks; what a hook hands back stands in the place of what it was given."""
    held = module.attrs.get("$hooks")
    own = held.items if isinstance(held, Sequence) else []
    entries = [i for i in (*m.global_hooks.values(), *own) if isinstance(i, Sequence)][:MOST]
    for kind, function, with_kwargs in (entry.items for entry in entries):
        if isinstance(kind, Const) and kind.value == "before":
            more = [m.mapping({k: v for k, v in kwargs.items()})] if _on(with_kwargs) else []
            changed = m.call(function, (module, m.sequence("tuple", list(args)), *more), {}, span, "hook")
            if isinstance(changed, Sequence) and not more:
                args = tuple(changed.items)
            elif isinstance(changed, Tensor):
                args = (changed,)
    result = forward(args)
    for kind, function, with_kwargs in (entry.items for entry in entries):
        if isinstance(kind, Const) and kind.value == "after":
            more = [m.mapping({k: v for k, v in kwargs.items()})] if _on(with_kwargs) else []
            given = (module, m.sequence("tuple", list(args)), *more, result)
            changed = m.call(function, given, {}, span, "hook")
            if not isinstance(changed, Unknown) and not (isinstance(changed, Const) and changed.value is None):
                result = changed
    return result


def around_step(
    m: Machine, optimizer: Instance, args: Args, kwargs: Kwargs, span: Span, step: Callable[[], Value]
) -> Value:
    """Runs `step` between the optimizer's hooks."""
    held = optimizer.attrs.get("$hooks")
    entries = [i for i in (held.items if isinstance(held, Sequence) else []) if isinstance(i, Sequence)][:MOST]
    given = (optimizer, m.sequence("tuple", list(args)), m.mapping({k: v for k, v in kwargs.items()}))
    result: Value = Const(None)
    for now in ("before", "", "after"):
        if not now:
            result = step()
        for kind, function, _ in (entry.items for entry in entries):
            if isinstance(kind, Const) and kind.value == now:
                m.call(function, given, {}, span, "hook")
    return result


def _on(flag: Value) -> bool:
    return isinstance(flag, Const) and bool(flag.value)
