"""Forward hooks of modules: registered under `$hooks` of the module, run around each of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.source import Span
from graphlint.value import Const, External, Instance, Sequence, Tensor, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
_KINDS = {"register_forward_hook": "after", "register_forward_pre_hook": "before"}
HANDLE = "torch.utils.hooks.RemovableHandle"
#: How many hooks of one module are run.
MOST = 4


def register(m: Machine, module: Instance, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """`module.register_forward_hook(fn)` and the like; hands back the handle that removes it."""
    handle = m.instance_of(External(HANDLE), span)
    function = args[0] if args else kwargs.get("hook")
    kind = _KINDS.get(name)
    if function is not None and kind is not None and not isinstance(function, Unknown):
        entry = m.sequence("tuple", [Const(kind), function, kwargs.get("with_kwargs", Const(False))])
        held = module.attrs.get("$hooks")
        items = [*(held.items if isinstance(held, Sequence) else []), entry]
        m.store(module.attrs, "$hooks", m.sequence("list", items))
        handle.attrs |= {"$module": module, "$entry": entry}
    return handle


def remove(m: Machine, handle: Instance) -> None:
    """`handle.remove()`."""
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
    entries = [i for i in held.items if isinstance(i, Sequence)][:MOST] if isinstance(held, Sequence) else []
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


def _on(flag: Value) -> bool:
    return isinstance(flag, Const) and bool(flag.value)
