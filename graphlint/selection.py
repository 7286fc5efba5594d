"""From the raw findings of a scope to the report about its targets."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from graphlint import suppress
from graphlint.config import Config, selected
from graphlint.engine import Raw, Report, order
from graphlint.finding import SEVERITIES, FileError, Finding, Severity
from graphlint.registry import Registry
from graphlint.scope import Scope, glob_matcher
from graphlint.source import Location, Source, SourceError, Span


def select(raw: Raw, scope: Scope, config: Config, registry: Registry) -> Report:
    """The report about the targets: rules selected, severities set, suppressions applied, each fault once."""
    names = selected(config, registry.by_name)
    levels = dict(config.severity)
    targets = scope.targets
    errors = list(dict.fromkeys(e for e in (*scope.errors, *raw.errors) if e.path in targets or e in scope.errors))
    about = [f for f in raw.findings if f.rule in names and _concerns(f, targets)]
    about += [unreadable_finding(e) for e in errors if "unreadable-file" in names]
    about = _without_ignored([_releveled(f, levels) for f in distinct(about)], config)
    about = [_editable(f, scope) for f in about]
    found: dict[str, list[suppress.Directive]] = {}
    sources: dict[str, Source] = {}
    for path in targets | {f.at.path for f in about} | {n.at.path for f in about for n in f.notes}:
        source = read_marked(path, scope.overlay)
        if source is not None and (listed := suppress.directives(source)):
            found[path], sources[path] = listed, source
    away = {f.at.path for f in about if scope.outside(f.at.path)}
    outcome = suppress.apply(about, found, registry.known, at_notes=away)
    own: list[Finding] = []
    for path in sorted(found.keys() & targets):
        reasons = config.require_reason
        own += suppress.own_findings(sources[path], path, found[path], registry.known, names, require_reason=reasons)
    own = [_editable(_releveled(f, levels), scope) for f in own if f.rule in names]
    from graphlint.fix import digest

    digests = dict(raw.digests)
    digests.update({p: digest(s.text) for p, s in sources.items() if p not in digests})
    return Report(
        tuple(sorted([*outcome.kept, *_without_ignored(own, config)], key=order)),
        tuple(r for r in raw.regions if r.at.path in targets or (r.applied_at and r.applied_at.path in targets)),
        (*errors, *(n for n in raw.notices if n.path in targets)),
        targets,
        tuple(sorted(outcome.silenced, key=order)),
        digests,
        scope.notebooks,
    )


def _editable(finding: Finding, scope: Scope) -> Finding:
    """The finding without its fix if that would change anything but files of the project."""
    if finding.fix is None:
        return finding
    paths = [edit.path for edit in finding.fix.edits]
    fine = paths and all(scope.owns(path) for path in paths)
    return finding if fine else replace(finding, fix=None)


def _concerns(finding: Finding, targets: Collection[str]) -> bool:
    return finding.at.path in targets or any(note.at.path in targets for note in finding.notes)


def _releveled(finding: Finding, levels: Mapping[str, Severity]) -> Finding:
    level = levels.get(finding.rule)
    return finding if level is None else replace(finding, severity=level)


def _without_ignored(findings: list[Finding], config: Config) -> list[Finding]:
    if not config.per_file_ignores:
        return findings
    patterns = [(glob_matcher([glob]), set(rules)) for glob, rules in config.per_file_ignores]

    def ignored(finding: Finding) -> bool:
        path = os.path.relpath(finding.at.path, config.root).replace(os.sep, "/")
        return any(finding.rule in rules and matches(path) for matches, rules in patterns)

    return [f for f in findings if not ignored(f)]


def distinct(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a rule and place: the most severe, then the one with the shortest way, then one with a fix."""
    best: dict[tuple[str, str, int, int], Finding] = {}
    for finding in findings:
        key = finding.rule, finding.at.path, finding.at.span.line, finding.at.span.column
        if key not in best or _rank(finding) < _rank(best[key]):
            best[key] = finding
    return list(best.values())


def _rank(finding: Finding) -> tuple[int, int, bool, str, tuple[Location, ...]]:
    notes = tuple(note.at for note in finding.notes)
    return SEVERITIES.index(finding.severity), len(notes), finding.fix is None, finding.message, notes


def unreadable_finding(error: FileError) -> Finding:
    """GL902 for a file that could not be checked, at the line that its message names."""
    import re

    match = re.search(r"\bline (\d+)", error.message)
    line = int(match[1]) if match else 1
    at = Location(error.path, Span(line, 1, line, 1))
    return Finding("unreadable-file", "GL902", "error", at, error.message)


def read_marked(path: str, overlay: Mapping[Path, str]) -> Source | None:
    """The source of a file that may hold suppressions, None if it holds none or cannot be read."""
    text = overlay.get(Path(path))
    if text is not None:
        return Source(Path(path), text)
    try:
        with open(path, "rb") as file:
            data = file.read()
        if b"graphlint" not in data and b"noqa" not in data.lower():
            return None
        return Source.from_bytes(Path(path), data)
    except (OSError, SourceError):
        return None
