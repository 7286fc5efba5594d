"""For people: one line a finding, the code around it, and the way from the capture to it."""

from __future__ import annotations

import unicodedata
from collections import Counter

from graphlint.engine import Place, RegionSummary, Report
from graphlint.finding import Finding
from graphlint.report.view import View, harmless, plural
from graphlint.source import Span

_COLORS = {"error": "1;31", "warning": "1;33", "note": "1;36", "path": "1", "dim": "2", "help": "1;32", "gutter": "34"}
_WIDTH = 160
_TAB = 4


def paint(text: str, style: str, view: View) -> str:
    return f"\x1b[{_COLORS[style]}m{text}\x1b[0m" if view.color and text else text


def headline(finding: Finding, view: View) -> str:
    """`path:line:col: error GL001[host-sync] message`."""
    span = finding.at.span
    place = paint(harmless(view.label(finding.at.path), tabs=True), "path", view) + f":{span.line}:{span.column}:"
    level = paint(finding.severity, finding.severity, view)
    verdict = f" ({finding.verdict})" if finding.verdict else ""
    message = harmless(finding.message, tabs=True)
    return f"{place} {level} {paint(finding.code, 'path', view)}[{finding.rule}] {message}{verdict}"


def width(text: str) -> int:
    """Columns that `text` takes in a terminal: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _shown(text: str) -> str:
    return harmless(text.expandtabs(_TAB) if text.isascii() else text.replace("\t", " " * _TAB))


def frame(path: str, span: Span, view: View) -> list[str]:
    """The lines of the span with one line around them, the span underlined; four lines of it at most."""
    if view.source(path) is None or (not view.line(path, span.line) and span.column == 1):
        return []
    last = min(span.end_line, span.line + 3)
    total = len(view.source(path).lines)  # type: ignore[union-attr]
    first_shown, last_shown = max(1, span.line - 1), min(total, last + 1)
    gutter = len(str(last_shown))
    bar = paint("|", "gutter", view)
    rows = [" " * (gutter + 1) + bar]
    for number in range(first_shown, last_shown + 1):
        text = view.line(path, number)
        start = 0
        if number == span.line and span.column > _WIDTH - 40:
            start = span.column - 40
        clipped = text[start : start + _WIDTH]
        marks = ("... " if start else "", " ..." if len(text) > start + _WIDTH else "")
        row = f"{paint(str(number).rjust(gutter), 'gutter', view)} {bar} {marks[0]}{_shown(clipped)}{marks[1]}"
        rows.append(row.rstrip())
        if span.line <= number <= last:
            begin = span.column - 1 if number == span.line else len(text) - len(text.lstrip())
            end = span.end_column - 1 if number == span.end_line else len(text.rstrip())
            begin, end = max(begin - start, 0), min(max(end - start, begin - start + 1), _WIDTH)
            before = width(marks[0] + _shown(clipped[:begin]))
            under = max(1, width(_shown(clipped[:end])) - width(_shown(clipped[:begin])))
            carets = paint("^" * under, "error", view)
            rows.append(" " * (gutter + 1) + f"{bar} " + " " * before + carets)
    if span.end_line > last:
        rows.append(" " * (gutter + 1) + f"{bar} ...")
    rows.append(" " * (gutter + 1) + bar)
    return rows


def notes(finding: Finding, view: View) -> list[str]:
    rows = []
    for note in finding.notes:
        code = harmless(view.line(note.at.path, note.at.line).strip())[:80]
        place = f"{harmless(view.label(note.at.path), tabs=True)}:{note.at.span.line}:{note.at.span.column}"
        label = paint("note", "note", view)
        rows.append(
            f"  {label}: {harmless(note.message, tabs=True)}: {place}"
            + (f"  {paint(code, 'dim', view)}" if code else "")
        )
    if finding.evidence:
        rows.append(f"  {paint('evidence', 'note', view)}: {harmless(finding.evidence, tabs=True)}")
    if finding.fix is not None:
        how = "`--fix`" if finding.fix.safe else "`--fix --unsafe-fixes`, needs a look"
        rows.append(f"  {paint('help', 'help', view)}: {harmless(finding.fix.title, tabs=True)} ({how})")
    return rows


def regions(found: tuple[RegionSummary, ...], view: View) -> list[str]:
    """What `--show-regions` prints: each capture, what it reads, makes and runs, and what was not followed."""

    def at(place: Place) -> str:
        label = f"  {harmless(place.label, tabs=True)}" if place.label else ""
        return f"{harmless(view.path(place.path), tabs=True)}:{place.line}{label}"

    rows = []
    for region, times in Counter(found).items():
        inside = f" in {harmless(region.function, tabs=True)}" if region.function else ""
        alike = f" ({times} alike)" if times > 1 else ""
        rows.append(f"{at(region.at)}: {paint('region', 'note', view)} {region.kind}{inside}{alike}")
        if region.applied_at is not None:
            rows.append(f"  applied at: {at(region.applied_at)}")
        rows.append(f"  warm-up: {region.warm_up}")
        for title, places in (
            ("static inputs", region.inputs),
            ("static outputs", region.outputs),
            ("reaches", region.reaches),
            ("could not follow", region.unresolved),
        ):
            rows.append(f"  {title}: {len(places) or 'none'}")
            rows += [f"    {at(place)}" for place in places]
        if region.spent:
            rows.append("  the work budget ran out: what follows was not seen")
        rows.append("")
    return rows


def statistics(report: Report, view: View) -> list[str]:
    """`count  code[rule]  summary`, most frequent first."""
    counts = Counter((f.code, f.rule) for f in report.findings)
    size = len(str(max(counts.values(), default=0)))
    return [
        f"{count:>{size}}  {code}[{rule}]  {view.summary(rule)}"
        for (code, rule), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def closing(report: Report, view: View) -> str:
    """The last line: how many findings of which severity, and what is not shown."""
    counts = Counter(f.severity for f in report.findings)
    parts = [plural(counts[level], level) for level in ("error", "warning", "note") if counts[level]]
    text = ", ".join(parts) if parts else "no findings"
    extra = []
    if view.fixed:
        extra.append(f"{view.fixed} fixed")
    if report.suppressed:
        extra.append(f"{len(report.suppressed)} suppressed")
    if view.baselined:
        extra.append(f"{view.baselined} in the baseline")
    text += f" in {plural(report.files, 'file')} checked" + (f" ({', '.join(extra)})" if extra else "")
    safe = sum(f.fix is not None and f.fix.safe for f in report.findings)
    unsafe = sum(f.fix is not None and not f.fix.safe for f in report.findings)
    if safe:
        text += f"\n{plural(safe, 'finding')} can be fixed with `--fix`" + (
            f", {unsafe} more with `--unsafe-fixes`" if unsafe else ""
        )
    elif unsafe:
        text += f"\n{plural(unsafe, 'finding')} can be fixed with `--fix --unsafe-fixes`"
    return text


def render(report: Report, view: View) -> str:
    rows: list[str] = []
    if view.show_regions:
        rows += regions(report.regions, view)
    if view.statistics:
        rows += statistics(report, view)
    else:
        for finding in report.findings:
            rows += [headline(finding, view), *frame(finding.at.path, finding.at.span, view), *notes(finding, view), ""]
    shown = {f.at.path for f in report.findings if f.rule == "unreadable-file"}
    for error in report.errors:
        if error.path not in shown or view.statistics:
            rows.append(f"{harmless(view.path(error.path), tabs=True)}: {harmless(error.message, tabs=True)}")
    if not view.quiet:
        rows.append(closing(report, view))
    return "\n".join(rows) + "\n" if rows else ""
