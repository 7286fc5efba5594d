"""Quick fixes as text edits: one finding, all of a rule in a file, or a suppression with a reason."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence

from graphlint.finding import Edit, Finding, Fix
from graphlint.fix import plan
from graphlint.source import Source, Span
from graphlint.suppress import directives, resolve

#: Stands where only the user knows what to write.
REASON = "TODO: say why this is fine"


def all_of_rule(findings: Sequence[Finding], rule: str, path: str, sources: dict[str, Source]) -> Fix | None:
    """The fixes of one rule's findings in a file that go together, None if there are fewer than two."""
    fixes = list(dict.fromkeys(f.fix for f in findings if f.rule == rule and f.at.path == path and f.fix is not None))
    if len(fixes) < 2:
        return None
    edits = tuple(edit for found, _ in plan(fixes, sources).values() for edit in found)
    safe = all(fix.safe for fix in fixes)
    return Fix(f"fix all {rule} in this file", edits, safe)


def every_safe(findings: Sequence[Finding], path: str, sources: dict[str, Source]) -> Fix | None:
    """All safe fixes of a file, None if it has none."""
    fixes = list(dict.fromkeys(f.fix for f in findings if f.at.path == path and f.fix is not None and f.fix.safe))
    edits = tuple(edit for found, _ in plan(fixes, sources).values() for edit in found)
    return Fix("fix all that is safe to fix", edits, True) if edits else None


def suppression(finding: Finding, source: Source) -> Fix:
    """A comment that silences the finding: at its line's end, in the list of one that is there, or above it."""
    line = finding.at.span.line
    path = finding.at.path
    title = f"ignore {finding.rule} on this line, with a reason"
    for directive in directives(source):
        if directive.kind == "ignore" and directive.span.line == line and directive.rules:
            if any(resolve(n.word, {finding.rule: finding.rule, finding.code: finding.rule}) for n in directive.rules):
                continue
            last = directive.rules[-1].span
            place = Span(last.end_line, last.end_column, last.end_line, last.end_column)
            return Fix(title, (Edit(path, place, f", {finding.rule}"),), True)
    text = source.lines[line - 1]
    comment = f"# graphlint: ignore[{finding.rule}] {REASON}"
    first = _above(source, line)
    if first is None:
        end = len(text.rstrip(" \t\f")) + 1
        return Fix(title, (Edit(path, Span(line, end, line, len(text) + 1), f"  {comment}"),), True)
    head = source.lines[first - 1]
    indent = head[: len(head) - len(head.lstrip())]
    return Fix(title, (Edit(path, Span(first, 1, first, 1), f"{indent}{comment}\n"),), True)


_JOINED = re.compile(r"\\[ \t]*$")


def _above(source: Source, line: int) -> int | None:
    """None if a comment may end the line; else the first line of the statement, above which it has to stand."""
    first, inside, ended = 0, False, False
    reader = iter([text + "\n" for text in source.lines])
    try:
        for token in tokenize.generate_tokens(lambda: next(reader, "")):
            if token.type in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
                ended = ended or (token.type == tokenize.COMMENT and token.start[0] == line)
                continue
            first = first or token.start[0]
            inside = inside or token.start[0] <= line < token.end[0]
            if token.type == tokenize.NEWLINE:
                if token.start[0] >= line:
                    break
                first, inside, ended = 0, False, False
    except (tokenize.TokenError, SyntaxError, StopIteration):
        return None
    joined = not ended and _JOINED.search(source.lines[line - 1]) is not None
    return (first or line) if inside or joined else None
