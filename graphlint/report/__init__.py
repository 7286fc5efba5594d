"""One file per output format, each with `render(report, view) -> str`. Loaded by name, when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from graphlint.engine import Report
from graphlint.report.view import View

FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "rdjson")


class _Module(Protocol):
    def render(self, report: Report, view: View) -> str: ...


def render(name: str, report: Report, view: View) -> str:
    """The report in a format of FORMATS, with a newline at the end unless it is empty."""
    module = cast(_Module, import_module(f"graphlint.report.{name}"))
    return module.render(report, view)
