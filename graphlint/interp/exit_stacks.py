"""What a `contextlib.ExitStack` was given, done in turn when it is left: the last one first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.fact import ContextExit
from graphlint.source import Span
from graphlint.value import Const, Instance, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

NAMES: tuple[str, ...] = ("contextlib.ExitStack", "contextlib.AsyncExitStack")
#: What leaves a stack by hand.
LEAVES = ("close", "__exit__")


def promise(m: Machine, stack: Instance, call: Callable[[], object]) -> None:
    """`call` waits until `stack` is left, and until what was opened after it is closed."""
    m.promised.setdefault(stack.id, []).append((call, len(m.contexts), len(m.region_stack)))


def callback(m: Machine, stack: Instance, args: tuple[Value, ...], kwargs: dict[str, Value], span: Span) -> Value:
    """`stack.callback(function, *args, **kwargs)`."""
    function, *given = args
    promise(m, stack, lambda: m.call(function, tuple(given), kwargs, span, "callback"))
    return function


def keep_promises(m: Machine, stack: Instance, span: Span) -> Value:
    for call, opened, depth in reversed(m.promised.pop(stack.id, [])):
        close(m, opened, depth, span)
        call()
    return Const(None)


def close(m: Machine, opened: int, depth: int, span: Span) -> None:
    """Ends the captures and blocks that were begun since there were `depth` and `opened` of them."""
    while len(m.region_stack) > depth:
        m.close_region(span)
    for inner in reversed(m.contexts[opened:]):
        m.emit(ContextExit, span, entered=inner)
    m.contexts = m.contexts[:opened]
