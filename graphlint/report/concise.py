"""One line a finding, for grep, quickfix lists and problem matchers."""

from __future__ import annotations

from graphlint.engine import Report
from graphlint.report import text
from graphlint.report.view import View


def render(report: Report, view: View) -> str:
    rows = text.regions(report.regions, view) if view.show_regions else []
    if view.statistics:
        rows += text.statistics(report, view)
    else:
        rows += [text.headline(finding, view) for finding in report.findings]
    if not view.quiet:
        rows.append(text.closing(report, view))
    return "\n".join(rows) + "\n" if rows else ""
