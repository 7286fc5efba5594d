"""Other threads: what they run is seen as a call made where it is handed over, with none of this thread's state.

A thread has a current stream, a grad mode and a capture of its own: what it launches is in no capture of this one.

Glossary:
    job      a call that was handed to another thread: a `concurrent.futures.Future` that knows its result.
    pending  what `asyncio.to_thread(...)` gives: nothing runs before it is awaited, gathered, or made a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graphlint.fact import Op
from graphlint.interp.objects import ExternalMethod
from graphlint.source import Span
from graphlint.value import Const, External, Instance, Sequence, Unknown, Value

if TYPE_CHECKING:
    from graphlint.interp.machine import Machine

Args = tuple[Value, ...]
Kwargs = dict[str, Value]
EVENT_LOOP = "asyncio.AbstractEventLoop"
PENDING = "asyncio.to_thread"
#: What awaits a job of another thread.
FUTURES = ("concurrent.futures.Future", "asyncio.Future")


def elsewhere(m: Machine, work: Callable[[], Value]) -> Value:
    """Runs `work` as another thread does: outside of captures and of the blocks that are open here."""
    saved = m.region, m.region_stack, m.contexts
    m.region, m.region_stack, m.contexts = None, [], ()
    try:
        return work()
    finally:
        m.region, m.region_stack, m.contexts = saved


def job(m: Machine, function: Value, args: Args, kwargs: Kwargs, span: Span) -> Instance:
    """A call handed to another thread; whoever asks for its result waits for it."""
    future = m.instance_of(External(FUTURES[0]), span)
    future.attrs["$result"] = elsewhere(m, lambda: m.call(function, args, kwargs, span, "submit"))
    return future


def started(m: Machine, target: Value, args: Args, span: Span, text: str) -> Value:
    """A thread that is started with `target`."""
    return elsewhere(m, lambda: m.call(target, args, {}, span, text))


def thread_method(m: Machine, receiver: Instance, name: str, args: Args, kwargs: Kwargs, span: Span) -> Value:
    """Methods of threads, executors and their jobs."""
    if name == "start" and receiver.external in ("threading.Thread", "threading.Timer"):
        target = receiver.kwargs.get("target") or receiver.kwargs.get("function")
        given = receiver.kwargs.get("args")
        position = 1
        if target is None and len(receiver.args) > position:
            target = receiver.args[position]
        if target is not None:
            started(m, target, tuple(given.items) if isinstance(given, Sequence) else (), span, "target")
        return Const(None)
    if name == "submit" and args:
        return job(m, args[0], args[1:], kwargs, span)
    if name == "result" and "$result" in receiver.attrs:
        return receiver.attrs["$result"]
    return Unknown(name)


# --------------------------------------------------------------------------------------------------- asyncio


def to_thread(m: Machine, args: Args, kwargs: Kwargs, span: Span) -> Instance:
    made = m.instance_of(External(PENDING), span)
    made.args, made.kwargs = args, kwargs
    return made


def awaited(m: Machine, value: Value, span: Span) -> Value:
    """`await value`: tasks that were made before get their turn, and a job is waited for."""
    turn(m)
    if isinstance(value, Instance) and value.external == PENDING:
        return _run(m, value)
    if isinstance(value, Instance) and value.external in FUTURES:
        return m.call(ExternalMethod(receiver=value, name="result"), (), {}, span, "await")
    return value


def task(m: Machine, value: Value) -> Value:
    """`create_task(...)`: what it is given begins when the loop has its turn, at the next `await`."""
    if not isinstance(value, Instance) or value.external != PENDING:
        return value
    future = m.instance_of(External(FUTURES[0]))
    future.attrs["$result"] = Unknown("task")
    m.tasks.append((value, future))
    return future


def turn(m: Machine) -> None:
    """The loop has its turn: tasks begin."""
    waiting, m.tasks = m.tasks, []
    _begin(m, waiting)


def gathered(m: Machine, args: Args, span: Span) -> Value:
    """`gather(...)`, `wait(...)`: all at once."""
    turn(m)
    given = [o for a in args for o in (a.items if isinstance(a, Sequence) else [a])]
    begun = {id(v): task(m, v) for v in given if isinstance(v, Instance) and v.external == PENDING}
    turn(m)
    results: list[Value] = []
    for value in given:
        value = begun.get(id(value), value)
        is_job = isinstance(value, Instance) and "$result" in value.attrs
        method = ExternalMethod(receiver=value, name="result")
        results.append(m.call(method, (), {}, span, "gather") if is_job else value)
    return m.sequence("list", results)


def _begin(m: Machine, tasks: list[tuple[Instance, Instance]]) -> None:
    """Every task is under way before the first is done."""
    for pending, future in tasks:
        if pending.made is not None:
            saved, m.path = m.path, pending.made.path
            m.emit(
                Op, pending.made.span, name="asyncio.create_task", args=pending.args, result=future, text="to_thread"
            )
            m.path = saved
    for pending, future in tasks:
        future.attrs["$result"] = _run(m, pending, alone=False)


def _run(m: Machine, pending: Instance, alone: bool = True) -> Value:
    if not pending.args or pending.made is None:
        return Unknown("to_thread")
    span = pending.made.span
    function, *args = pending.args
    saved, m.path = m.path, pending.made.path
    try:
        result = elsewhere(m, lambda: m.call(function, tuple(args), pending.kwargs, span, "to_thread"))
        if alone and m.region is not None:
            m.emit(Op, span, name=PENDING, args=pending.args, result=result, text="to_thread")
    finally:
        m.path = saved
    return result
