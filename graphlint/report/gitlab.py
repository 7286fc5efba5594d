"""GitLab Code Quality: an array of issues. Equal fingerprints would be dropped there, so each is unique."""

from __future__ import annotations

import json

from graphlint.baseline import fingerprints
from graphlint.engine import Report
from graphlint.report.view import View, harmless

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render(report: Report, view: View) -> str:
    issues = []
    for finding, mark in zip(report.findings, fingerprints(report.findings, view.root, view.lines()), strict=True):
        span = finding.at.span
        issues.append(
            {
                "description": harmless(f"{finding.code}[{finding.rule}] {view.said(finding)}"),
                "check_name": finding.rule,
                "fingerprint": mark.digest,
                "severity": _SEVERITIES[finding.severity],
                "location": {
                    "path": view.path(finding.at.path).removeprefix("./"),
                    "lines": {"begin": span.line, "end": span.end_line},
                },
            }
        )
    return json.dumps(issues, indent=2) + "\n"
