"""What a capture calls, and how often the same was called outside of one before: its warm-up runs.

A capture's own calls are those of the code that stands in it (the body of `with torch.cuda.graph(...)`), not what they
call in turn. A call is known again by the function of the user's that it enters, or by its text.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from graphlint.runtime.syntax import Statement
from graphlint.runtime.watch.journal import Activation, Journal, Step, Watcher

Key = Any


@dataclass(slots=True)
class Call:
    """A statement in a capture that launched work: its text, and the functions that it entered. `before` is how often
    it had run outside."""

    text: Key
    functions: list[Key]
    before: int = 0


@dataclass(slots=True)
class Content:
    """What stands in one capture. `depth` is how deep the stack is there."""

    depth: int
    calls: list[Call] = field(default_factory=list)
    entered: list[Key] = field(default_factory=list)
    launched: int = 0


class Rehearsals(Watcher):
    def __init__(self, machine: Any, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.counts: dict[Key, int] = {}
        self.contents: dict[int, Content] = {}

    # ------------------------------------------------------------ outside of captures
    def entered(self, activation: Activation) -> None:
        key = activation.frame.f_code
        if activation.number == 0:
            return  # a generated __init__
        if not self.machine.capturing():
            self.counts[key] = self.counts.get(key, 0) + 1
            return
        content = self.contents.get(self.machine.capture.number)
        if content is not None and len(self.journal.stack) == content.depth + 1:
            content.entered.append(key)

    def begins(self, step: Step) -> None:
        if step.graph is None:
            key = text_of(step.path, step.statement)
            if key is not None:
                self.counts[key] = self.counts.get(key, 0) + 1
            return
        content = self.contents.get(step.graph)
        if content is None or step.depth < content.depth:
            # the first statements may be those of a helper that opens the capture for its caller
            content = self.contents[step.graph] = Content(step.depth)
        if step.depth == content.depth:
            content.launched = self._launched()
            content.entered.clear()

    def done(self, step: Step) -> None:
        content = self.contents.get(step.graph) if step.graph is not None else None
        if content is None or step.depth != content.depth or isinstance(step.statement.node, (ast.With, ast.AsyncWith)):
            return  # a `with` comes here when it is left
        if self._launched() > content.launched:
            call = Call(text_of(step.path, step.statement), list(content.entered))
            ran = [self.counts.get(key, 0) for key in call.functions]
            call.before = max(self.counts.get(call.text, 0), min(ran, default=0))
            content.calls.append(call)

    def _launched(self) -> int:
        capture = self.machine.capture
        return int(capture.launched) if capture is not None else 1 << 60

    # ------------------------------------------------------------ answers
    def warm_ups(self, graph: int) -> int | None:
        """How often all of a capture's content ran before it; None where nothing of it could be followed."""
        content = self.contents.get(graph)
        if content is None or not content.calls:
            return None
        return min(call.before for call in content.calls)


@lru_cache(maxsize=4096)
def _text(node: ast.AST) -> str:
    return ast.unparse(node)


def text_of(path: str, statement: Statement) -> Key:
    """The outermost call of a statement as text, None if it has none."""
    if not statement.calls:
        return None
    return path, _text(statement.calls[0])
