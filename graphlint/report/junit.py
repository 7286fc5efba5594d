"""JUnit XML: a test suite for each file, a failure for each finding; a clean run is one test that passes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from graphlint.engine import Report
from graphlint.finding import Finding
from graphlint.report.view import View, harmless

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _text(text: str) -> str:
    return _NOT_XML.sub("?", harmless(text))


def _attribute(text: str) -> str:
    return quoteattr(_text(text))


def _suite(path: str, findings: Iterable[Finding], view: View) -> list[str]:
    rows = []
    shown = view.path(path)
    for finding in findings:
        span = finding.at.span
        name = f"{finding.code}[{finding.rule}]:{span.line}:{span.column}"
        way = "".join(f"\n{_text(n.message)}: {_text(view.path(n.at.path))}:{n.at.line}" for n in finding.notes)
        body = escape(f"{_text(shown)}:{span.line}:{span.column}: {_text(view.said(finding))}{way}")
        rows.append(
            f"    <testcase name={_attribute(name)} classname={_attribute(shown)} file={_attribute(shown)} "
            f'line="{span.line}" time="0">'
        )
        if finding.severity != "note":
            told = f"type={_attribute(finding.severity)} message={_attribute(finding.message)}"
            rows.append(f"      <failure {told}>{body}</failure>")
        else:
            rows.append(f"      <system-out>{body}</system-out>")
        rows.append("    </testcase>")
    return [f"  <testsuite name={_attribute(shown)} {_counts(rows)}>", *rows, "  </testsuite>"]


def _counts(rows: list[str]) -> str:
    tests = sum(row.startswith("    <testcase") for row in rows)
    failures = sum(row.startswith("      <failure") for row in rows)
    return f'tests="{tests}" failures="{failures}" errors="0" skipped="0" time="0"'


def render(report: Report, view: View) -> str:
    rows: list[str] = []
    for path, findings in groupby(report.findings, key=lambda f: f.at.path):
        rows += _suite(path, findings, view)
    if not report.findings:
        rows += [
            '  <testsuite name="graphlint" tests="1" failures="0" errors="0" skipped="0" time="0">',
            '    <testcase name="graphlint" classname="graphlint" time="0"/>',
            "  </testsuite>",
        ]
    failures = sum(f.severity != "note" for f in report.findings)
    tests = len(report.findings) or 1
    head = f'<testsuites name="graphlint" tests="{tests}" failures="{failures}" errors="0" time="0">'
    return "\n".join(['<?xml version="1.0" encoding="UTF-8"?>', head, *rows, "</testsuites>"]) + "\n"
