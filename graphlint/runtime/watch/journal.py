"""The user's statements as they run: before and after each, and what functions return.

Watchers subclass `Watcher` and get a `Step` for every statement of the user's own files. Only those files are traced.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.emulate.machine import Machine
from graphlint.runtime.identity import Identities
from graphlint.runtime.syntax import Chain, Statement, statement_at

MISSING: Any = object()
#: Long runs are traced up to here; what comes later is not followed line by line. Of that, one function gets a part, so
#: that a loop that sets something up leaves the rest to what comes after it.
MAX_STEPS, OF_ONE = 3_000_000, 300_000

#: Functions that may be left in the middle of a statement, and so many of them that wait.
WAITS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
MAX_SUSPENDED = 1000
#: Bytes of code between the instruction that leaves a function and the one with which it goes on, at most.
_RESUMED = 8


@dataclass(slots=True, eq=False)
class Step:
    """One run of one statement. `graph` is the capture it runs in."""

    frame: FrameType
    statement: Statement
    path: str
    line: int
    graph: int | None
    epoch: int
    """How many replays there were when it began."""
    depth: int
    call: int
    """The number of the call that it is a part of."""
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def site(self) -> frames.Site:
        return frames.Site(self.path, self.line, frames.qualified(self.frame))


@dataclass(slots=True, eq=False)
class Activation:
    """A call of a user's function that is under way."""

    frame: FrameType
    number: int
    """Its own, as long as it lasts: a generator that goes on has the number that it had."""
    parent: Activation | None
    step: Step | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Waiting:
    """A generator or coroutine that waits. Its frame is not kept: it dies when the program lets go of it."""

    code: CodeType
    place: int
    """Of the instruction at which it left."""
    call: int
    step: tuple[Any, ...]
    """The statement that it waits in, without the frame."""

    def goes_on(self, frame: FrameType) -> bool:
        """Whether it is what runs in a frame that lies at its address: another function would begin at its start."""
        return frame.f_code is self.code and 0 <= frame.f_lasti - self.place <= _RESUMED


class Watcher:
    """Override what is needed."""

    def __init__(self, machine: Machine, journal: Journal) -> None:
        self.machine, self.journal = machine, journal

    def entered(self, activation: Activation) -> None:
        """A user's function begins."""

    def begins(self, step: Step) -> None:
        """A statement is about to run."""

    def done(self, step: Step) -> None:
        """A statement has run."""

    def returned(self, activation: Activation, value: Any) -> None:
        """A user's function returns or yields."""

    def finish(self) -> None:
        """The run is over."""


class Journal:
    """Traces the user's files with `sys.settrace`."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.watchers: list[Watcher] = []
        self.stack: list[Activation] = []
        self.numbers = 0
        self.steps = 0
        self._steps: dict[int, list[Any]] = {}
        """Of each function, by its code's id: how many steps it made, and the code, so that its id stays its own."""
        self._suspended: dict[int, Waiting] = {}
        """Generators and coroutines that wait, by the frame's id."""
        self.identities = Identities()
        self.replays = 0
        self.leaving: frames.Site | None = None
        """The function that has just returned: what dies now dies with its locals."""
        self.executed: dict[str, set[int]] = {}
        self.thread = threading.get_ident()
        self.busy = False
        self._lock = getattr(machine, "lock", None) or threading.RLock()
        """Calls of other threads are told to the same watchers."""

    def __enter__(self) -> Journal:
        self._outer = sys.gettrace()
        gc.callbacks.append(self._collecting)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *exc: object) -> None:
        sys.settrace(self._outer)
        gc.callbacks.remove(self._collecting)
        for watcher in self.watchers:
            watcher.finish()

    def _collecting(self, phase: str, info: Any) -> None:
        """What a frame's variables held when they were looked at must not live longer than they do."""
        self.identities.collecting(phase, info)
        if phase == "start" and self.machine.capture is not None:
            for activation in self.stack:
                activation.frame.f_locals  # noqa: B018  (reading it brings it up to date)

    @property
    def running(self) -> Sequence[Activation]:
        """The user's functions that run in this thread: only the first one's are followed."""
        return self.stack if threading.get_ident() == self.thread else ()

    @property
    def current(self) -> Step | None:
        """The statement that runs now, in the innermost function of the user; None in other threads than the first."""
        return self.stack[-1].step if self.stack and threading.get_ident() == self.thread else None

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if not frames.is_user(code.co_filename):
            if code.co_name == "__init__" and code.co_filename == "<string>":
                self._made(frame)
            return None
        if threading.get_ident() != self.thread or self.busy:
            return None
        made = self._steps.get(id(code))
        if made is not None and made[0] > OF_ONE:
            return None
        activation = self._activate(frame)
        self.leaving = None
        self._each("entered", activation)
        return self._local

    def _activate(self, frame: FrameType) -> Activation:
        """A function begins, or goes on."""
        waited = self._suspended.pop(id(frame), None)
        goes_on = waited is not None and waited.goes_on(frame)
        if waited is not None and goes_on:
            number = waited.call
        else:
            self.numbers += 1
            number = self.numbers
        activation = Activation(frame, number, self.stack[-1] if self.stack else None)
        if waited is not None and goes_on:
            activation.step = Step(frame, *waited.step)
        self.stack.append(activation)
        return activation

    def _waits(self, frame: FrameType, activation: Activation, step: Step) -> None:
        """A generator or coroutine leaves in the middle of a statement, or ends."""
        while len(self._suspended) >= MAX_SUSPENDED:
            del self._suspended[next(iter(self._suspended))]
        rest = (step.statement, step.path, step.line, step.graph, step.epoch, step.depth, step.call, step.notes)
        self._suspended[id(frame)] = Waiting(frame.f_code, frame.f_lasti, activation.number, rest)

    def call_of(self, frame: FrameType | None) -> int:
        """The number of the call that runs in a frame; 0 if it is none of the user's."""
        return next((a.number for a in reversed(self.stack) if a.frame is frame), 0)

    def _made(self, frame: FrameType) -> None:
        """A dataclass is made: its generated __init__ has no file."""
        maker = frame.f_back
        if not self.busy and maker is not None and not frames.is_own(maker.f_code.co_filename):
            self._each("entered", Activation(frame, 0, self.stack[-1] if self.stack else None))

    def _local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if self.busy:
            return self._local
        stack = self.stack
        while stack and stack[-1].frame is not frame:
            if any(a.frame is frame for a in stack):
                stack.pop()
            else:
                self._activate(frame)
        if not stack:
            return self._local
        activation = stack[-1]
        if event == "line":
            self._finish(activation)
            self.leaving = None
            self.steps += 1
            if self.steps > MAX_STEPS:
                sys.settrace(None)
                return None
            made = self._steps.setdefault(id(frame.f_code), [0, frame.f_code])
            made[0] += 1
            if made[0] > OF_ONE:
                stack.pop()
                del frame.f_trace
                return None
            statement = statement_at(frame.f_code.co_filename, frame.f_lineno)
            if statement is not None:
                capture = self.machine.capture
                inside = capture.number if capture is not None and self.machine.capturing() else None
                path, first = frame.f_code.co_filename, statement.first
                step = Step(frame, statement, path, first, inside, self.replays, len(stack), activation.number)
                activation.step = step
                if inside is not None:
                    self.executed.setdefault(step.path, set()).update(range(statement.first, statement.last + 1))
                self._each("begins", step)
        elif event == "return":
            waits = activation.step
            if waits is not None and frame.f_code.co_flags & WAITS:
                self._waits(frame, activation, waits)
            self._finish(activation)
            self._each("returned", activation, arg)
            activation.step = None
            self.leaving = frames.Site(frame.f_code.co_filename, frame.f_lineno, frames.qualified(frame))
            stack.pop()
        return self._local

    def _finish(self, activation: Activation) -> None:
        step, activation.step = activation.step, None
        if step is not None:
            activation.data["last"] = step
            self.identities.prune()
            self._each("done", step)

    def _each(self, name: str, *arguments: Any) -> None:
        self.busy = True
        try:
            with self._lock:
                for watcher in self.watchers:
                    getattr(watcher, name)(*arguments)
        finally:
            self.busy = False


def lookup(frame: FrameType, name: str) -> Any:
    """A variable as the frame sees it, MISSING if there is none."""
    local = frame.f_locals
    if name in local:
        return local[name]
    return frame.f_globals.get(name, MISSING)


def follow(root: Any, steps: tuple[tuple[str, Any], ...], frame: FrameType | None = None) -> Any:
    """What stands at the end of `steps`, without running the user's properties; MISSING if nothing does."""
    value = root
    for kind, name in steps:
        if kind == "attr":
            value = attribute(value, name)
        else:
            key = name
            if kind == "key":
                if frame is None:
                    return MISSING
                key = lookup(frame, name)
            elif kind == "keys":
                if frame is None:
                    return MISSING
                key = tuple(part[1] if isinstance(part, tuple) else lookup(frame, part) for part in name)
            if not isinstance(value, (dict, list, tuple)):
                return MISSING
            try:  # not the dictionary's own `__missing__`
                value = dict.get(value, key, MISSING) if isinstance(value, dict) else value[key]
            except (IndexError, TypeError):
                return MISSING
        if value is MISSING:
            return MISSING
    return value


def attribute(owner: Any, name: str) -> Any:
    """An attribute that is stored, not computed; MISSING otherwise."""
    try:
        own = vars(owner)
    except TypeError:
        own = {}
    if name in own:
        return own[name]
    for group in ("_parameters", "_buffers", "_modules"):
        members = own.get(group)
        if isinstance(members, dict) and name in members:
            return members[name]
    kind = type(owner)
    found = kind.__dict__.get(name, MISSING)
    if found is MISSING:
        for base in kind.__mro__:
            if name in base.__dict__:
                found = base.__dict__[name]
                break
    if found is MISSING and isinstance(owner, type):
        for base in owner.__mro__:
            if name in base.__dict__:
                return base.__dict__[name]
    if hasattr(found, "__get__") and not isinstance(found, (int, float, str)):
        member = type(found).__name__ == "member_descriptor"  # a slot holds a value like any other
        if not member and not (name in ("grad", "data") and isinstance(owner, _tensor())):
            return MISSING
        try:
            return getattr(owner, name)
        except AttributeError:
            return MISSING
    return found


def _tensor() -> Any:
    import torch

    return torch.Tensor


def resolve(frame: FrameType, chain: Chain) -> Any:
    root = lookup(frame, chain.root)
    return MISSING if root is MISSING else follow(root, chain.steps, frame)


def host_value(value: Any) -> bool:
    """A number, text or small container of them: what a capture bakes in."""
    if isinstance(value, (bool, int, float, complex, str)):
        return True
    if isinstance(value, (list, tuple)) and len(value) <= 64:
        return all(isinstance(v, (bool, int, float, str)) for v in value)
    return False
