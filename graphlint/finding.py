"""What a check says and what a report shows.

Glossary:
    note     a place that explains a finding: `captured here`, `called here`.
    problem  what a rule yields.
    finding  a problem with its rule, severity and verdict: all that reports, fixes and editors see.
    verdict  what the runtime witness said of a static finding: confirmed, refuted, not-reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphlint.source import Location, Span

Severity = Literal["error", "warning", "note"]
Verdict = Literal["confirmed", "refuted", "not-reached"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace `span` of `path` with `text`."""

    path: str
    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """Text edits that cure a finding. A safe fix changes nothing but the fault; others need a look."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A place that explains a finding, outermost (the capture) first."""

    at: Location
    message: str


@dataclass(frozen=True, slots=True)
class Problem:
    """What a rule yields: `at` is an expression or a statement's header, never a body.

    `message` stands alone on one line, lower case, no full stop, names in backticks, the consequence said.
    `notes` is the way from the capture to `at`, at most five steps. `severity` overrides the rule's own.
    """

    at: Location
    message: str
    notes: tuple[Note, ...] = ()
    fix: Fix | None = None
    severity: Severity | None = None
    function: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem with its rule; what reports, baselines, fixes and editors see.

    `rule` is the name (`host-sync`), `code` the alias (`GL001`); `function` the qualified name around `at`.
    """

    rule: str
    code: str
    severity: Severity
    at: Location
    message: str
    notes: tuple[Note, ...] = ()
    fix: Fix | None = None
    function: str = ""
    verdict: Verdict | None = None
    evidence: str = ""
    suppressed: str | None = None
    """The reason given by the suppression that silences it; None if it is not suppressed."""


@dataclass(frozen=True, slots=True)
class FileError:
    """A file that could not be checked, in one line."""

    path: str
    message: str
