"""Reviewdog Diagnostic Format. Its columns are UTF-8 bytes from 1, the end exclusive, unlike everyone else's."""

from __future__ import annotations

import json
from typing import Any

from graphlint.engine import Report
from graphlint.finding import Finding
from graphlint.report.view import View, harmless
from graphlint.source import Location, Span

_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def _position(path: str, line: int, column: int, view: View) -> dict[str, int]:
    before = view.line(path, line)[: column - 1]
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}


def _range(path: str, span: Span, view: View) -> dict[str, Any]:
    return {
        "start": _position(path, span.line, span.column, view),
        "end": _position(path, span.end_line, span.end_column, view),
    }


def _location(at: Location, view: View) -> dict[str, Any]:
    return {"path": view.path(at.path), "range": _range(at.path, at.span, view)}


def _diagnostic(finding: Finding, view: View) -> dict[str, Any]:
    found: dict[str, Any] = {
        "message": harmless(view.said(finding)),
        "location": _location(finding.at, view),
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": f"{finding.code}[{finding.rule}]"},
    }
    if finding.notes:
        found["related_locations"] = [
            {"message": harmless(n.message), "location": _location(n.at, view)} for n in finding.notes
        ]
    fix = finding.fix
    if fix is not None and all(edit.path == finding.at.path for edit in fix.edits):
        # A suggestion can change only the file that it stands in.
        found["suggestions"] = [{"range": _range(e.path, e.span, view), "text": e.text} for e in fix.edits]
    return found


def render(report: Report, view: View) -> str:
    shown = {
        "source": {"name": "graphlint", "url": "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs"},
        "severity": "WARNING",
        "diagnostics": [_diagnostic(f, view) for f in report.findings],
    }
    return json.dumps(shown, indent=2) + "\n"
