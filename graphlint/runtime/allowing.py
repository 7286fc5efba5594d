"""`with graphlint.allow("host-sync", reason="..."):` - lines whose faults are wanted. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType


@dataclass(frozen=True, slots=True)
class Allowed:
    """Lines `first` to `last` of a file, where `rule` (a name or a code) is allowed."""

    rule: str
    reason: str
    path: str
    first: int
    last: int


_ALLOWED: dict[Allowed, None] = {}


class allow:
    """Allows a rule for the lines of the block.

    Args:
        rule: a rule's name or code.
        reason: why; required, it stands in the source for the next reader.
    """

    def __init__(self, rule: str, *, reason: str) -> None:
        if not reason:
            raise ValueError("a reason is required")
        self.rule, self.reason = rule, reason

    def __enter__(self) -> allow:
        frame: FrameType = sys._getframe(1)
        first, last = _block(frame.f_code.co_filename, frame.f_lineno)
        _ALLOWED[Allowed(self.rule, self.reason, frame.f_code.co_filename, first, last)] = None
        return self

    def __exit__(self, *exc: object) -> None:
        """What was allowed stays so: the same lines may run again."""


def _block(path: str, line: int) -> tuple[int, int]:
    from graphlint.runtime.syntax import statement_at

    statement = statement_at(path, line)
    if statement is None:
        return line, line
    return statement.node.lineno, statement.node.end_lineno or line


def allowed(rule: str, spots: Iterable[tuple[str, int]], code: str = "") -> str | None:
    """The reason for which a rule is allowed at one of these lines, None if it is not."""
    for one in _ALLOWED:
        if one.rule.lower() in (rule.lower(), code.lower()) and any(
            path == one.path and one.first <= line <= one.last for path, line in spots
        ):
            return one.reason
    return None
