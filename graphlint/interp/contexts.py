"""`with` blocks: which ones capture, which ones run somebody's `__enter__`, and what stays open inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.fact import Context
from graphlint.interp import attributes, capture, effort, exit_stacks
from graphlint.interp.objects import BudgetSpent, ClassValue, FunctionValue
from graphlint.interp.tensors import wanted_device
from graphlint.lower import tree
from graphlint.source import Span
from graphlint.value import Const, External, Host, Instance, Unknown, Value, options

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Body = Callable[[Value], None]


def enter(m: Machine, manager: Value, item: tree.WithItem, node: tree.With, body: Body) -> None:
    """Runs `body` inside `manager`, giving it what `as` binds."""
    picked = [o for o in options(manager) if not (isinstance(o, Const) and o.value is None)]
    # Of several managers (a capture, or nullcontext) the one that captures says most.
    manager = next((o for o in picked if capture.is_capture_manager(m, o)), picked[0] if picked else Unknown())
    if capture.is_capture_manager(m, manager):
        capture.capture_block(m, manager, item, node, body, either=len(picked) > 1)
    elif isinstance(manager, Instance) and isinstance(manager.cls, ClassValue):
        _own_manager(m, manager, item, body)
    elif isinstance(manager, Instance) and manager.external == "contextlib.contextmanager":
        _generator_manager(m, manager, item, body)
    elif isinstance(manager, Instance) and manager.external:
        _external_manager(m, manager, item, body)
    elif isinstance(manager, Const) or (isinstance(manager, Host) and manager.kind == "device"):
        _device_block(m, manager, item, body)
    else:
        body(manager if isinstance(manager, Instance) else Unknown())


def _device_block(m: Machine, device: Value, item: tree.WithItem, body: Body) -> None:
    """`with torch.device("cuda"):` decides where factories put what they make."""
    fact = m.emit(Context, item.expr.span, name="torch.device", value=device)
    saved, m.default_device = m.default_device, wanted_device(m, device) or m.default_device
    try:
        with m.context(fact, item.expr.span):
            body(device)
    finally:
        m.default_device = saved


def _own_manager(m: Machine, manager: Instance, item: tree.WithItem, body: Body) -> None:
    method = attributes.find_method(m, manager, "__enter__")
    value: Value = manager
    depth = len(m.region_stack)
    if method is not None:
        value = m.call(method, (), {}, item.expr.span, "__enter__")
        capture.applied_here(m, depth, item.expr.span)
    fact = m.emit(
        Context, item.expr.span, name=manager.cls.name if isinstance(manager.cls, ClassValue) else "", value=manager
    )
    leave, none = attributes.find_method(m, manager, "__exit__"), Const(None)
    try:
        with m.context(fact, item.expr.span):
            body(value)
    except BudgetSpent:
        if leave is not None:
            effort.let_go(m, lambda: m.call(leave, (none, none, none), {}, item.expr.span, "__exit__"))
        raise
    if leave is not None:
        m.call(leave, (none, none, none), {}, item.expr.span, "__exit__")
    while len(m.region_stack) > depth:
        m.close_region(item.expr.span)


def _generator_manager(m: Machine, manager: Instance, item: tree.WithItem, body: Body) -> None:
    """A @contextmanager function: its body runs up to `yield`, then the block, then the rest."""
    function = manager.attrs["$function"]
    assert isinstance(function, FunctionValue)
    depth = len(m.region_stack)
    done: list[bool] = []
    outer = m.stack[-1]

    def on_yield(value: Value) -> None:
        if done:
            return
        done.append(True)
        capture.applied_here(m, depth, item.expr.span)
        inner, chain, path = m.stack, m.chain, m.path
        # The block belongs to the caller's frame, but to whatever capture and blocks the manager has opened.
        m.stack = m.stack[: m.stack.index(outer) + 1]
        m.path, m.chain = saved_path, saved_chain
        try:
            body(value)
        finally:
            m.stack, m.chain, m.path = inner, chain, path

    saved_path, saved_chain = m.path, m.chain
    m.call_generator(function, manager.args, manager.kwargs, item.expr.span, on_yield)
    if not done:
        body(Unknown())
    while len(m.region_stack) > depth:
        m.close_region(item.expr.span)


def _external_manager(m: Machine, manager: Instance, item: tree.WithItem, body: Body) -> None:
    name = manager.external
    fact = m.emit(Context, item.expr.span, name=name, value=manager)
    saved, depth, opened = m.default_device, len(m.region_stack), len(m.contexts) + 1
    try:
        with m.context(fact, item.expr.span):
            stacked = name in exit_stacks.NAMES
            body(manager if stacked or name.startswith(("torch.", "concurrent.", "threading.")) else Unknown())
            if stacked:
                exit_stacks.keep_promises(m, manager, item.expr.span)
                exit_stacks.close(m, opened, depth, item.expr.span)
    finally:
        m.default_device = saved


def decorate(m: Machine, wraps: tuple[Value, ...], span: Span, run: Callable[[], Value]) -> Value:
    """Runs `run` inside the context managers that decorate a function."""
    if not wraps:
        return run()
    first, rest = wraps[0], wraps[1:]
    if isinstance(first, Instance):
        fact = m.emit(Context, first.made.span if first.made is not None else span, name=first.external, value=first)
        with m.context(fact, span):
            return decorate(m, rest, span, run)
    return decorate(m, rest, span, run)


def of(value: Value) -> str:
    """The external name of a context manager, or ""."""
    if isinstance(value, Instance):
        return value.external
    return value.name if isinstance(value, External) else ""
