"""One JSON object a line: each finding as in `json`, then each error as `{"error": {"path", "message"}}`."""

from __future__ import annotations

import json

from graphlint.engine import Report
from graphlint.report.json import finding_object, region_object
from graphlint.report.view import View


def render(report: Report, view: View) -> str:
    rows = [finding_object(f, view) for f in report.findings]
    if view.show_regions:
        rows += [{"region": region_object(r, view)} for r in report.regions]
    rows += [{"error": {"path": view.path(e.path), "message": e.message}} for e in report.errors]
    return "".join(json.dumps(row) + "\n" for row in rows)
