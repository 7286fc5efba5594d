"""SARIF 2.1.0, as code scanning services read it: code flows, fixes, suppressions, fingerprints, code-point columns."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

from graphlint.baseline import fingerprints
from graphlint.engine import Report
from graphlint.finding import Finding
from graphlint.registry import ToolRule
from graphlint.report.view import View, harmless
from graphlint.rule import Rule
from graphlint.source import Location, Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROOT = "SRCROOT"
_LEVELS = {"error": "error", "warning": "warning", "note": "note"}
#: What code scanning shows of one run; more are refused or dropped there.
_MAX_RESULTS = 25_000
_MAX_STEPS = 100


def render(report: Report, view: View) -> str:
    shown = [*report.findings, *report.suppressed][:_MAX_RESULTS]
    names = list(dict.fromkeys(f.rule for f in shown))
    marks = fingerprints(shown, view.root, view.lines())
    # Findings that are suppressed come from the same lines, so all are counted together.
    results = [_result(f, names.index(f.rule), mark.digest, view) for f, mark in zip(shown, marks, strict=True)]
    run = {
        "tool": {
            "driver": {
                "name": "graphlint",
                "version": view.version,
                "semanticVersion": view.version,
                "informationUri": "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
                "rules": [_rule(name, view) for name in names],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": Path(view.cwd).as_uri().rstrip("/") + "/"}},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {
                        "level": "error",
                        "message": {"text": harmless(e.message)},
                        "locations": [{"physicalLocation": {"artifactLocation": _artifact(e.path, view)}}],
                    }
                    for e in report.errors
                ],
            }
        ],
        "results": results,
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _artifact(path: str, view: View) -> dict[str, str]:
    shown = view.path(path)
    if shown.startswith("../") or os.path.isabs(shown):
        return {"uri": Path(os.path.abspath(path)).as_uri()}
    return {"uri": quote(os.fsencode(shown), safe="/"), "uriBaseId": _ROOT}


def _region(span: Span) -> dict[str, Any]:
    return {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": max(span.end_column, span.column) if span.line == span.end_line else span.end_column,
    }


def _physical(at: Location, view: View, *, snippet: bool = False) -> dict[str, Any]:
    region = _region(at.span)
    found: dict[str, Any] = {"artifactLocation": _artifact(at.path, view), "region": region}
    if snippet and (text := view.line(at.path, at.line)):
        region["snippet"] = {"text": text}
        first, last = max(1, at.line - 1), at.span.end_line + 1
        rows = [view.line(at.path, number) for number in range(first, min(last, at.line + 20) + 1)]
        found["contextRegion"] = {
            "startLine": first,
            "endLine": first + len(rows) - 1,
            "snippet": {"text": "\n".join(rows)},
        }
    return found


def _result(finding: Finding, index: int, mark: str, view: View) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": _sentence(view.said(finding))},
        "locations": [{"physicalLocation": _physical(finding.at, view, snippet=True)}],
        "partialFingerprints": {"graphlint/v1": mark},
    }
    if finding.function:
        found["locations"][0]["logicalLocations"] = [
            {"fullyQualifiedName": harmless(finding.function), "kind": "function"}
        ]
    if finding.notes:
        steps = [(n.at, n.message) for n in finding.notes][: _MAX_STEPS - 1]
        found["codeFlows"] = [
            {
                "message": {"text": "from the capture to the line"},
                "threadFlows": [
                    {
                        "locations": [
                            {"location": _located(at, text, view), "executionOrder": number}
                            for number, (at, text) in enumerate([*steps, (finding.at, finding.message)], 1)
                        ]
                    }
                ],
            }
        ]
        found["relatedLocations"] = [
            {"id": number, **_located(at, text, view)} for number, (at, text) in enumerate(steps, 1)
        ]
    if finding.fix is not None:
        found["fixes"] = [_fix(finding, view)]
    if finding.suppressed is not None:
        found["suppressions"] = [
            {"kind": "inSource", "justification": harmless(finding.suppressed) or "no reason given"}
        ]
    return found


def _located(at: Location, text: str, view: View) -> dict[str, Any]:
    return {"physicalLocation": _physical(at, view), "message": {"text": _sentence(text)}}


def _fix(finding: Finding, view: View) -> dict[str, Any]:
    assert finding.fix is not None
    changes: dict[str, list[dict[str, Any]]] = {}
    for edit in finding.fix.edits:
        replacement = {"deletedRegion": _region(edit.span), "insertedContent": {"text": edit.text}}
        changes.setdefault(edit.path, []).append(replacement)
    safety = "" if finding.fix.safe else " (needs a look)"
    return {
        "description": {"text": _sentence(finding.fix.title + safety)},
        "artifactChanges": [
            {"artifactLocation": _artifact(path, view), "replacements": made} for path, made in changes.items()
        ],
    }


def _sentence(text: str) -> str:
    """Readers of SARIF expect sentences; messages have neither capital nor full stop."""
    text = harmless(text).strip() or "no message"
    return text if text.endswith((".", "!", "?")) else text + "."


def _rule(name: str, view: View) -> dict[str, Any]:
    rule: Rule | ToolRule | None = view.rules.get(name)
    code = rule.code if rule is not None else name
    summary = rule.summary if rule is not None else name
    severity = rule.severity if rule is not None else "warning"
    page = rule.page if rule is not None and rule.page else summary
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in name.split("-")),
        "shortDescription": {"text": _sentence(f"{name}: {summary}")},
        "fullDescription": {"text": _sentence(summary[:1000])},
        "help": {"text": page, "markdown": page},
        "helpUri": "https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs",
        "defaultConfiguration": {"level": _LEVELS[severity]},
        "properties": {
            "tags": ["cuda", "cuda-graphs", "pytorch"],
            "precision": "high",
            "problem.severity": {"error": "error", "warning": "warning", "note": "recommendation"}[severity],
        },
    }
