"""GitHub Actions workflow commands, one annotation a finding.

A run shows at most ten errors and ten warnings of a step, so errors come first and the rest is counted. Everything
that comes from linted code is escaped as the runner wants it: a message must not be able to give a command.
"""

from __future__ import annotations

from collections import Counter

from graphlint.engine import Report
from graphlint.finding import SEVERITIES
from graphlint.report.view import View, harmless, plural

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}
_SHOWN = 10


def escape(text: str) -> str:
    """A message: `%`, CR and LF, in this order."""
    return harmless(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def escape_property(text: str) -> str:
    """A property: also `:` and `,`, which part properties."""
    return escape(text).replace(":", "%3A").replace(",", "%2C")


def render(report: Report, view: View) -> str:
    rows = []
    for finding in sorted(report.findings, key=lambda f: SEVERITIES.index(f.severity)):
        span = finding.at.span
        properties = {
            "title": f"{finding.code}: {finding.rule}",
            "file": view.path(finding.at.path),
            "line": str(span.line),
            "endLine": str(span.end_line),
            "col": str(span.column),
        }
        if span.line == span.end_line:
            # A column range over several lines is refused by the checks interface.
            properties["endColumn"] = str(span.end_column)
        listed = ",".join(f"{key}={escape_property(value)}" for key, value in properties.items())
        way = "".join(f"\n{n.message}: {view.path(n.at.path)}:{n.at.line}" for n in finding.notes)
        rows.append(f"::{_COMMANDS[finding.severity]} {listed}::{escape(view.said(finding) + way)}")
    counts = Counter(f.severity for f in report.findings)
    for level in SEVERITIES:
        if counts[level] > _SHOWN:
            rows.append(
                f"graphlint: {plural(counts[level] - _SHOWN, level)} more than the {_SHOWN} that GitHub shows for a "
                "step; upload SARIF to see all"
            )
    return "".join(row + "\n" for row in rows)
