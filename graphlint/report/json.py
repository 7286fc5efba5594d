"""The JSON that other tools rely on. One object; paths relative to the working directory, lines and columns from 1."""

from __future__ import annotations

import json
from typing import Any

from graphlint.engine import Place, RegionSummary, Report
from graphlint.finding import Finding, Fix
from graphlint.notebooks import split
from graphlint.report.view import View


def finding_object(finding: Finding, view: View) -> dict[str, Any]:
    """One finding; also a line of the `jsonl` format."""
    span = finding.at.span
    found: dict[str, Any] = {
        "rule": finding.rule,
        "code": finding.code,
        "severity": finding.severity,
        "path": view.path(finding.at.path),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
        "function": finding.function,
        "message": finding.message,
        "trace": [{"path": view.path(n.at.path), "line": n.at.line, "message": n.message} for n in finding.notes],
        "fix": fix_object(finding.fix, view),
    }
    if (cell := split(finding.at.path)[1]) is not None:
        found["cell"] = cell
    if finding.verdict is not None:
        found["verdict"] = finding.verdict
        found["evidence"] = finding.evidence
    if finding.suppressed is not None:
        found["suppressed"] = finding.suppressed
    return found


def fix_object(fix: Fix | None, view: View) -> dict[str, Any] | None:
    if fix is None:
        return None
    edits = [
        {
            "path": view.path(e.path),
            "line": e.span.line,
            "column": e.span.column,
            "end_line": e.span.end_line,
            "end_column": e.span.end_column,
            "text": e.text,
        }
        for e in fix.edits
    ]
    return {"title": fix.title, "safe": fix.safe, "edits": edits}


def region_object(region: RegionSummary, view: View) -> dict[str, Any]:
    def place(at: Place, label: str = "") -> dict[str, Any]:
        shown: dict[str, Any] = {"path": view.path(at.path), "line": at.line}
        return {**shown, label: at.label} if label else shown

    return {
        "kind": region.kind,
        "path": view.path(region.at.path),
        "line": region.at.line,
        "function": region.function,
        "applied_at": None if region.applied_at is None else place(region.applied_at),
        "warm_up": region.warm_up,
        "inputs": [place(p, "label") for p in region.inputs],
        "outputs": [place(p) for p in region.outputs],
        "reaches": [place(p, "name") for p in region.reaches],
        "unresolved": [place(p, "call") for p in region.unresolved],
        "complete": not region.spent,
    }


def render(report: Report, view: View) -> str:
    shown: dict[str, Any] = {
        "version": view.version,
        "findings": [finding_object(f, view) for f in report.findings],
    }
    if view.show_regions:
        shown["regions"] = [region_object(r, view) for r in report.regions]
    shown["errors"] = [{"path": view.path(e.path), "message": e.message} for e in report.errors]
    return json.dumps(shown, indent=2, ensure_ascii=True) + "\n"
