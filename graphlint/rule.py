"""What a rule is: metadata, a page, and one generator function over a Region.

A rule folder `rules/glNNN_some_name/` holds `rule.py` with

    @rule("GL001", "host-sync", "error", "a host read of a CUDA value inside a capture")
    def check(region: Region) -> Iterator[Problem]: ...

The registry loads folders; nothing imports a rule by its dotted name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from graphlint.finding import Problem, Severity
from graphlint.region import Region

Check = Callable[[Region], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Rule:
    """`code` is GLnnn, `name` the bad pattern in kebab case; `folder` holds the page and the examples."""

    code: str
    name: str
    severity: Severity
    summary: str
    check: Check
    folder: Path | None = None

    @property
    def page(self) -> str:
        """The rule's README, which `graphlint explain` prints; empty if there is none."""
        if self.folder is None:
            return ""
        path = self.folder / "README.md"
        return path.read_text(encoding="utf-8") if path.is_file() else ""


def rule(code: str, name: str, severity: Severity, summary: str) -> Callable[[Check], Rule]:
    """Makes a Rule of a check; the registry adds the folder it was loaded from."""

    def decorate(check: Check) -> Rule:
        return Rule(code, name, severity, summary, check)

    return decorate
