"""The journal of a run on a GPU: statements as ever, but of what captured code calls only which lines ran.

Inside a capture nothing asks for the statements of the functions that it calls, and a model's step may run thousands of
lines. `sys.settrace` costs there, too, where it follows nothing: each function call, and from Python 3.12 on each line
of any code. So from 3.12 on captures are followed by `sys.monitoring` instead: code that is not the user's is asked
about once, a line of the user's is told of once.
"""

from __future__ import annotations

import sys
import threading
from types import CodeType, FrameType
from typing import Any

from graphlint.runtime import frames
from graphlint.runtime.syntax import statement_at
from graphlint.runtime.watch.journal import Activation, Journal

#: Of `sys.monitoring`'s tools, those that it names no use for.
_TOOLS = (4, 3)


class Outline(Journal):
    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self.floor = 0
        """How deep the stack is where the open capture began: what stands there is followed statement by statement."""
        self._foreign: set[str] = set()
        """Files that are none of the user's."""
        self._lines: dict[str, set[int]] = {}
        """The lines of deeper functions that ran in captures."""
        self._monitor: _Monitor | None = None

    def begin(self) -> None:
        """A capture begins."""
        self.floor = len(self.stack)
        if threading.get_ident() == self.thread and sys.gettrace() == self._trace:
            self._monitor = monitor(self)

    def end(self) -> None:
        """It ends."""
        if self._monitor is not None and threading.get_ident() == self.thread:
            self._monitor.end()
            self._monitor = None
            sys.settrace(self._trace)

    def __exit__(self, *exc: object) -> None:
        self.end()
        super().__exit__(*exc)
        for path, lines in self._lines.items():
            found = self.executed.setdefault(path, set())
            for line in lines:
                statement = statement_at(path, line)
                found.update(range(statement.first, statement.last + 1) if statement is not None else (line,))

    def foreign(self, name: str) -> bool:
        """Whether a file is none of the user's."""
        if name not in self._foreign:
            if frames.is_user(name):
                return False
            self._foreign.add(name)
        return True

    def ran(self, path: str, line: int) -> None:
        lines = self._lines.get(path)
        if lines is None:
            self._lines[path] = {line}
        else:
            lines.add(line)

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if name in self._foreign or (name != "<string>" and self.foreign(name)):  # a dataclass's own __init__
            return None
        if self.machine.capture is not None and len(self.stack) > self.floor and name != "<string>":
            if self.busy or threading.get_ident() != self.thread:
                return None
            self.stack.append(Activation(frame, 0, self.stack[-1]))
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
    """Follows `journal`'s thread by `sys.monitoring` in place of `sys.settrace`; None where that is not to be had."""
    if sys.version_info < (3, 12):
        return None
    free = [tool for tool in _TOOLS if sys.monitoring.get_tool(tool) is None]
    return _Monitor(journal, free[0]) if free else None


class _Monitor:
    """The events of one capture, told to the journal."""

    def __init__(self, journal: Outline, tool: int) -> None:
        self.journal, self.tool = journal, tool
        self.outer = {id(a.frame.f_code) for a in journal.stack}
        """The code of the frames whose statements are followed."""
        self.codes: dict[int, CodeType] = {}
        """The user's code, whose lines are told of."""
        self.on: Any = getattr(sys, "monitoring")  # noqa: B009  (not there before Python 3.12)
        on, kinds = self.on, self.on.events
        on.use_tool_id(tool, "graphlint")
        self.local = kinds.LINE | kinds.PY_RETURN | kinds.PY_YIELD
        for kind, function in (
            (kinds.PY_START, self._start),
            (kinds.PY_RESUME, self._start),
            (kinds.PY_THROW, self._thrown),
            (kinds.LINE, self._line),
            (kinds.PY_RETURN, self._left),
            (kinds.PY_YIELD, self._left),
            (kinds.PY_UNWIND, self._unwound),
        ):
            on.register_callback(tool, kind, function)
        for activation in journal.stack:
            self._follow(activation.frame.f_code)
        on.set_events(tool, kinds.PY_START | kinds.PY_RESUME | kinds.PY_THROW | kinds.PY_UNWIND)
        sys.settrace(None)

    def end(self) -> None:
        on = self.on
        on.set_events(self.tool, 0)
        for code in self.codes.values():
            on.set_local_events(self.tool, code, 0)
        for kind in (name for name in dir(on.events) if name.isupper() and name != "NO_EVENTS"):
            on.register_callback(self.tool, getattr(on.events, kind), None)
        on.free_tool_id(self.tool)

    def _follow(self, code: CodeType) -> None:
        if id(code) not in self.codes:
            self.codes[id(code)] = code
            self.on.set_local_events(self.tool, code, self.local)

    def _mine(self) -> bool:
        journal = self.journal
        return threading.get_ident() == journal.thread and not journal.busy and journal.machine.capture is not None

    def _start(self, code: CodeType, offset: int) -> Any:
        if self.journal.foreign(code.co_filename):
            return self.on.DISABLE
        if self._mine():
            self._follow(code)
            self._enter(sys._getframe(1))
        return None

    def _thrown(self, code: CodeType, offset: int, error: BaseException) -> None:
        if not self.journal.foreign(code.co_filename) and self._mine():
            self._follow(code)
            self._enter(sys._getframe(1))

    def _enter(self, frame: FrameType) -> None:
        journal = self.journal
        journal.numbers += 1
        activation = Activation(frame, journal.numbers, journal.stack[-1] if journal.stack else None)
        journal.stack.append(activation)
        if len(journal.stack) == journal.floor + 1:
            journal._each("entered", activation)

    def _line(self, code: CodeType, line: int) -> Any:
        journal = self.journal
        if not self._mine():
            return None
        if id(code) in self.outer and len(journal.stack) <= journal.floor:
            journal._local(sys._getframe(1), "line", None)
            return None
        journal.ran(code.co_filename, line)
        return None if id(code) in self.outer else self.on.DISABLE

    def _left(self, code: CodeType, offset: int, value: Any) -> None:
        if self._mine():
            self._leave(sys._getframe(1), value)

    def _unwound(self, code: CodeType, offset: int, error: BaseException) -> None:
        if self._mine():
            self._leave(sys._getframe(1), None)

    def _leave(self, frame: FrameType, value: Any) -> None:
        journal = self.journal
        if not journal.stack or journal.stack[-1].frame is not frame:
            return
        if len(journal.stack) <= journal.floor:
            journal._local(frame, "return", value)
        else:
            journal.stack.pop()
