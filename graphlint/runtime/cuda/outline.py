"""The journal of a run on a GPU: statements as ever, but of what captured code calls only which lines ran.

Inside a capture nothing asks for the statements of the functions that it calls, and a model's step may run thousands of
lines. `sys.settrace` costs there, too, where it follows nothing: each function call, and from Python 3.12 on each line
of any code. So from 3.12 on the run is followed by `sys.monitoring` instead, which asks once about code that is not the
user's, and leaves it alone from then on.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from types import CodeType, FrameType
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.syntax import statement_at
from graphlint.runtime.watch.journal import MAX_STEPS, WAITS, Activation, Journal

#: Of `sys.monitoring`'s tools, those that it names no use for.
_TOOLS = (4, 3)
#: How often it is asked whether all lines of a function have run.
TRIES = 8


class Lines:
    """The lines of a function that captured code calls."""

    __slots__ = ("code", "left", "tries")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        lines = {line for _, _, line in code.co_lines() if line}
        self.left = lines - {code.co_firstlineno} or lines
        self.tries = TRIES

    def all_ran(self, ran: Collection[int]) -> bool:
        """Whether each of its lines ran in a capture before. One with lines that do not run is asked a few times."""
        if self.left and self.tries:
            self.tries -= 1
            self.left.difference_update(ran)
        return not self.left


class Outline(Journal):
    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self.floor = 0
        """How deep the stack is where the open capture began: what stands there is followed statement by statement."""
        self._foreign: set[str] = set()
        """Files that are none of the user's."""
        self._lines: dict[str, set[int]] = {}
        """The lines of deeper functions that ran in captures."""
        self._codes: dict[int, Lines] = {}
        """The functions that captured code calls, by their code's id."""
        self._monitor: _Monitor | None = None

    def __enter__(self) -> Outline:
        super().__enter__()
        self._monitor = monitor(self)
        if self._monitor is not None:
            sys.settrace(self._outer)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._monitor is not None:
            self._monitor.end()
        super().__exit__(*exc)
        for path, lines in self._lines.items():
            found = self.executed.setdefault(path, set())
            for line in lines:
                statement = statement_at(path, line)
                found.update(range(statement.first, statement.last + 1) if statement is not None else (line,))

    def begin(self) -> None:
        """A capture begins."""
        self.floor = len(self.stack)

    def foreign(self, name: str) -> bool:
        """Whether a file is none of the user's."""
        if name not in self._foreign:
            if frames.is_user(name):
                return False
            self._foreign.add(name)
        return True

    def passing(self) -> bool:
        """Whether what runs now is a function that captured code calls."""
        return self.machine.capture is not None and len(self.stack) > self.floor

    def ran(self, path: str, line: int) -> None:
        lines = self._lines.get(path)
        if lines is None:
            self._lines[path] = {line}
        else:
            lines.add(line)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name in self._foreign or self.foreign(name):  # most calls are torch's own: not one more for each
            return None
        if self.passing():
            if self.busy or threading.get_ident() != self.thread:
                return None
            self.stack.append(Activation(frame, 0, self.stack[-1]))
            code = frame.f_code
            if self._monitor is None and not code.co_flags & WAITS:
                known = self._codes.get(id(code)) or self._codes.setdefault(id(code), Lines(code))
                if known.all_ran(self._lines.get(code.co_filename, ())):
                    frame.f_trace_lines = False  # what there is to tell of its lines has been told
            return self._passing
        return super()._trace(frame, event, arg)

    def _passing(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            if self.machine.capture is not None:
                self.ran(frame.f_code.co_filename, frame.f_lineno)
        elif event == "return" and self.stack and self.stack[-1].frame is frame:
            self.stack.pop()
        return self._passing


def monitor(journal: Outline) -> _Monitor | None:
    """Follows the program by `sys.monitoring`; None where that is not to be had."""
    if sys.version_info < (3, 12):
        return None
    free = [tool for tool in _TOOLS if sys.monitoring.get_tool(tool) is None]
    return _Monitor(journal, free[0]) if free else None


class _Monitor:
    """Tells a journal what `sys.settrace` would."""

    def __init__(self, journal: Outline, tool: int) -> None:
        self.journal, self.tool = journal, tool
        self.codes: dict[int, CodeType] = {}
        """The user's code, by its id."""
        self.on: Any = getattr(sys, "monitoring")  # noqa: B009  (not there before Python 3.12)
        kinds = self.on.events
        self.local = kinds.LINE | kinds.PY_RETURN | kinds.PY_YIELD
        self.callbacks: dict[int, Any] = {
            kinds.PY_START: self._start,
            kinds.PY_RESUME: self._start,
            kinds.PY_THROW: self._thrown,
            kinds.LINE: self._line,
            kinds.PY_RETURN: self._left,
            kinds.PY_YIELD: self._left,
            kinds.PY_UNWIND: self._unwound,
        }
        self.on.use_tool_id(tool, "graphlint")
        for kind, function in self.callbacks.items():
            self.on.register_callback(tool, kind, function)
        self.on.set_events(tool, kinds.PY_START | kinds.PY_RESUME | kinds.PY_THROW | kinds.PY_UNWIND)

    def end(self) -> None:
        if self.on.get_tool(self.tool) != "graphlint":
            return
        self.on.set_events(self.tool, 0)
        for code in self.codes.values():
            self.on.set_local_events(self.tool, code, 0)
        for kind in self.callbacks:
            self.on.register_callback(self.tool, kind, None)
        self.on.free_tool_id(self.tool)

    def _start(self, code: CodeType, offset: int) -> Any:
        if self.journal.foreign(code.co_filename):
            return self.on.DISABLE
        self._enter(sys._getframe(1))
        return None

    def _thrown(self, code: CodeType, offset: int, error: BaseException) -> None:
        if not self.journal.foreign(code.co_filename):
            self._enter(sys._getframe(1))

    def _enter(self, frame: FrameType) -> None:
        journal = self.journal
        if journal.busy or threading.get_ident() != journal.thread:
            return
        code = frame.f_code
        if journal._trace(frame, "call", None) is not None and id(code) not in self.codes:
            self.codes[id(code)] = code
            self.on.set_local_events(self.tool, code, self.local)

    def _line(self, code: CodeType, line: int) -> Any:
        journal = self.journal
        if journal.busy or threading.get_ident() != journal.thread or not journal.stack:
            return None
        frame = journal.stack[-1].frame
        if frame.f_code is not code or frame is not sys._getframe(1):
            return None  # a function that made too many steps
        if journal.passing():
            journal.ran(code.co_filename, line)
        elif journal.steps >= MAX_STEPS:
            self.end()
        else:
            journal._local(frame, "line", None)
        return None

    def _left(self, code: CodeType, offset: int, value: Any) -> None:
        self._leave(code, sys._getframe(1), value)

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        if id(code) in self.codes:
            self._leave(code, sys._getframe(1), None)

    def _leave(self, code: CodeType, frame: FrameType, value: Any) -> None:
        journal = self.journal
        if threading.get_ident() != journal.thread or not journal.stack or journal.stack[-1].frame is not frame:
            return
        if journal.passing():
            journal.stack.pop()
        else:
            journal._local(frame, "return", value)
