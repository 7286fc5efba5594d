"""What all formats share: relative paths, source lines, harmless text, plain counts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from graphlint.baseline import Lines
from graphlint.finding import Finding
from graphlint.notebooks import split
from graphlint.registry import ToolRule
from graphlint.rule import Rule
from graphlint.source import Source, SourceError

#: Control characters (terminal escapes), bidirectional overrides and separators that some viewers take for line ends.
_UNSAFE = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufff9-\ufffb]"
)


def harmless(text: str, *, tabs: bool = False) -> str:
    r"""Text of linted code as it may be printed: what could steer a terminal or forge a line becomes `\x1b`.

    A tab stays unless `tabs`.
    """

    def escape(match: re.Match[str]) -> str:
        point = ord(match[0])
        return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"

    text = _UNSAFE.sub(escape, text)
    return text.replace("\t", "\\t") if tabs else text


@dataclass(slots=True)
class View:
    """How to show a report: where paths start, which colours, what else than findings."""

    cwd: str
    version: str
    rules: Mapping[str, Rule | ToolRule]
    color: bool = False
    show_regions: bool = False
    statistics: bool = False
    quiet: bool = False
    verbose: bool = False
    overlay: Mapping[Path, str] = field(default_factory=dict)
    """Texts that stand for files: standard input, cells of notebooks."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Other names for files: standard input under the name that it was given."""
    fixed: int = 0
    baselined: int = 0
    root: str = ""
    """Where fingerprints start: the project's folder, so that they do not depend on the working directory."""
    _sources: dict[str, Source | None] = field(default_factory=dict)

    def label(self, path: str) -> str:
        """As `path`, with the cell of a notebook: `a.ipynb:cell 3`."""
        cell = split(path)[1]
        return self.path(path) + (f":cell {cell}" if cell is not None else "")

    def said(self, finding: Finding) -> str:
        """The message, with the cell of a notebook before it where the format has no place for that."""
        cell = split(finding.at.path)[1]
        return finding.message if cell is None else f"cell {cell}: {finding.message}"

    def path(self, path: str) -> str:
        """Relative to the working directory, with slashes."""
        path = split(path)[0]
        if path in self.names:
            return self.names[path]
        try:
            shown = os.path.relpath(path, self.cwd)
        except ValueError:
            shown = path
        return shown.replace(os.sep, "/")

    def source(self, path: str) -> Source | None:
        """The text of a file as it was checked, None if it cannot be read."""
        if path not in self._sources:
            try:
                text = self.overlay.get(Path(path))
                self._sources[path] = Source(Path(path), text) if text is not None else Source.read(Path(path))
            except SourceError:
                self._sources[path] = None
        return self._sources[path]

    def line(self, path: str, number: int) -> str:
        """Line `number` of a file, "" if there is none."""
        source = self.source(path)
        if source is None or not 0 < number <= len(source.lines):
            return ""
        return source.lines[number - 1]

    def lines(self) -> Lines:
        """The source lines that fingerprints are made of."""
        return Lines({str(path): text for path, text in self.overlay.items()})

    def summary(self, rule: str) -> str:
        found = self.rules.get(rule)
        return found.summary if found is not None else ""

    def page(self, rule: str) -> str:
        found = self.rules.get(rule)
        return found.page if found is not None else ""


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def heading(finding: Finding) -> str:
    """`error GL001[host-sync] message`, harmless."""
    return f"{finding.severity} {finding.code}[{finding.rule}] {harmless(finding.message, tabs=True)}"
