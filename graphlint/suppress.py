"""Comments that silence findings.

    x.item()  # graphlint: ignore[host-sync] read once, before the first replay
    # graphlint: ignore[host-sync, GL002] the next statement
    # graphlint: ignore-file[stale-scalar] generated code
    x.item()  # noqa: GL001

Glossary:
    directive   one such comment: what it silences, where, and why.
    target      the lines that it silences: its own, or the statement's if it ends a statement of several lines, or the
                next statement's if it has a line of its own.
    unused      it silences nothing although its rule ran: a finding of the tool's own, with a fix.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphlint.finding import Edit, Finding, Fix
from graphlint.source import Location, Source, Span

_DIRECTIVE = re.compile(r"#\s*graphlint:\s*(?P<verb>[\w-]+)(?:\s*\[(?P<rules>[^\]\n]*)\])?(?P<reason>[^#\n]*)")
_NOQA = re.compile(r"#\s*noqa:(?P<rules>\s*[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)", re.IGNORECASE)
_VERBS = ("ignore", "ignore-next-line", "ignore-file")
_MARKER = re.compile(r"graphlint:|noqa:[^\n]*\bGL\d", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment token. `statement` is the first and last line of the statement that it ends or stands in."""

    line: int
    column: int
    text: str
    alone: bool
    statement: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Named:
    """A rule as a directive spells it, and where."""

    word: str
    span: Span


@dataclass(slots=True)
class Directive:
    """One suppression. No rules means all. `lines` is its target, None for the whole file."""

    kind: str
    span: Span
    rules: tuple[Named, ...]
    reason: str
    lines: tuple[int, int] | None
    used: set[str] = field(default_factory=set)

    def covers(self, first: int, last: int) -> bool:
        return self.lines is None or (first <= self.lines[1] and last >= self.lines[0])


# ------------------------------------------------------------------------------------------------- finding comments


def comments(source: Source) -> list[Comment]:
    """All comments, also of a file that does not parse: what the tokenizer cannot read is scanned line by line."""
    found: list[Comment] = []
    pending: list[tuple[int, int, str, bool]] = []
    first = 0
    last_line = 0
    lines = source.lines
    reader = iter([line + "\n" for line in lines])
    try:
        for token in tokenize.generate_tokens(lambda: next(reader, "")):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                alone = not lines[row - 1][:column].strip()
                pending.append((row, column + 1, token.string.rstrip("\r"), alone))
                last_line = row
            elif token.type in (tokenize.NEWLINE, tokenize.NL):
                if token.type == tokenize.NEWLINE or not first:
                    statement = (first or row, row)
                    found += [Comment(r, c, t, a, statement if not a else (r, r)) for r, c, t, a in pending]
                    pending, first = [], 0
            elif token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER):
                first = first or row
                last_line = token.end[0]
    except (tokenize.TokenError, SyntaxError, IndentationError, StopIteration):
        pass
    found += [Comment(r, c, t, a, (r, r)) for r, c, t, a in pending]
    seen = {c.line for c in found}
    if last_line < len(lines):
        found += [c for c in _scan(lines, last_line) if c.line not in seen]
    return sorted(found, key=lambda c: (c.line, c.column))


_STRING_OR_COMMENT = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|#.*")


def _scan(lines: Sequence[str], start: int) -> Iterator[Comment]:
    for number, line in enumerate(lines[start:], start + 1):
        if "#" in line:
            for match in _STRING_OR_COMMENT.finditer(line):
                if match[0].startswith("#"):
                    alone = not line[: match.start()].strip()
                    yield Comment(number, match.start() + 1, match[0], alone, (number, number))
                    break


def directives(source: Source) -> list[Directive]:
    """The suppressions of a file, in order. A directive that is not known has kind "unknown"."""
    if not _MARKER.search(source.text):
        return []
    found: list[Directive] = []
    lines = source.lines
    for comment in comments(source):
        for match in _DIRECTIVE.finditer(comment.text):
            span = _span(comment, match.start(), match.start() + len(match[0].rstrip()))
            rules = _names(comment, match, "rules")
            verb = match["verb"]
            if verb not in _VERBS:
                found.append(Directive("unknown", span, (Named(verb, span),), "", (comment.line, comment.line)))
                continue
            target: tuple[int, int] | None
            if verb == "ignore-file":
                target = None
            elif verb == "ignore-next-line" or comment.alone:
                target = _next_statement(source, comment.line)
            else:
                target = comment.statement if comment.statement[1] == comment.line else (comment.line, comment.line)
            listed = match["rules"] is not None
            reason = match["reason"].strip(" \t:-")
            if listed and not rules:
                continue
            found.append(Directive(verb, span, rules, reason, target))
        for match in _NOQA.finditer(comment.text):
            rules = tuple(n for n in _names(comment, match, "rules") if n.word.upper().startswith("GL"))
            if rules and comment.line <= len(lines):
                ends = comment.statement[1] == comment.line and not comment.alone
                target = comment.statement if ends else (comment.line, comment.line)
                span = _span(comment, match.start(), match.end())
                found.append(Directive("noqa", span, rules, "noqa", target))
    return found


def _span(comment: Comment, start: int, end: int) -> Span:
    return Span(comment.line, comment.column + start, comment.line, comment.column + end)


def _names(comment: Comment, match: re.Match[str], group: str) -> tuple[Named, ...]:
    if match[group] is None:
        return ()
    base = match.start(group)
    return tuple(
        Named(m[0], _span(comment, base + m.start(), base + m.end())) for m in re.finditer(r"[^\s,]+", match[group])
    )


def _next_statement(source: Source, line: int) -> tuple[int, int]:
    """The lines of the first statement below `line`: up to the line where its brackets close."""
    lines = source.lines
    start = line + 1
    while start <= len(lines) and (not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#")):
        start += 1
    reader = iter([text + "\n" for text in lines[start - 1 :]])
    try:
        for token in tokenize.generate_tokens(lambda: next(reader, "")):
            if token.type == tokenize.NEWLINE:
                return start, start + token.start[0] - 1
    except (tokenize.TokenError, SyntaxError, StopIteration):
        pass
    return start, start


# ------------------------------------------------------------------------------------------------- applying them


@dataclass(frozen=True, slots=True)
class Outcome:
    """Findings that stay, those that are silenced (with the reason), and the tool's own about suppressions."""

    kept: tuple[Finding, ...]
    silenced: tuple[Finding, ...]


def apply(
    findings: Iterable[Finding],
    files: Mapping[str, Sequence[Directive]],
    known: Mapping[str, str],
    *,
    at_notes: Collection[str] = (),
) -> Outcome:
    """Splits findings by the directives of `files`, and marks the directives that were used.

    at_notes: paths of files that the user cannot edit (installed packages); a finding there may be silenced at any
    place of its way from the capture.
    """
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for finding in findings:
        places = [finding.at]
        if finding.at.path in at_notes:
            places += [note.at for note in finding.notes]
        directive = next((d for place in places if (d := _match(finding, place, files, known)) is not None), None)
        if directive is None:
            kept.append(finding)
        else:
            silenced.append(replace(finding, suppressed=directive.reason))
    return Outcome(tuple(kept), tuple(silenced))


def _match(
    finding: Finding, place: Location, files: Mapping[str, Sequence[Directive]], known: Mapping[str, str]
) -> Directive | None:
    """The directive that silences; all that would are marked as used, so that one of two equal ones is no lie."""
    hit: Directive | None = None
    for directive in files.get(place.path, ()):
        if directive.kind == "unknown" or not directive.covers(place.span.line, place.span.end_line):
            continue
        named = {n.word for n in directive.rules if resolve(n.word, known) == finding.rule}
        if named or not directive.rules:
            directive.used |= named or {"*"}
            hit = hit or directive
    return hit


def resolve(word: str, known: Mapping[str, str]) -> str | None:
    """The name of a rule spelled as name or code, None if there is none."""
    return known.get(word) or known.get(word.upper()) or known.get(word.lower())


def own_findings(
    source: Source,
    path: str,
    found: Sequence[Directive],
    known: Mapping[str, str],
    ran: Collection[str],
    *,
    require_reason: bool = False,
) -> Iterator[Finding]:
    """Unused, unknown and unexplained suppressions of one file. `ran` holds the names of the rules that ran."""
    for directive in found:
        if directive.kind == "unknown":
            yield _unknown_verb(path, directive)
            continue
        bad = [n for n in directive.rules if resolve(n.word, known) is None]
        idle = [n for n in directive.rules if n not in bad and n.word not in directive.used]
        idle = [n for n in idle if resolve(n.word, known) in ran]
        for name in bad:
            fix = _remove(source, path, directive, [name], "remove the unknown rule")
            hint = _suggest(name.word, known)
            message = f"`{name.word}` is not a rule, so this comment silences nothing for it{hint}"
            yield Finding("unknown-rule", "GL903", "warning", Location(path, name.span), message, fix=fix)
        if idle:
            words = ", ".join(f"`{n.word}`" for n in idle)
            message = f"unused suppression: {words} {'reports' if len(idle) == 1 else 'report'} nothing here"
            fix = _remove(source, path, directive, idle, "remove the unused suppression")
            yield Finding("unused-suppression", "GL901", "warning", Location(path, directive.span), message, fix=fix)
        elif not directive.rules and not directive.used and ran:
            fix = _remove(source, path, directive, [], "remove the unused suppression")
            message = "unused suppression: no rule reports anything here"
            yield Finding("unused-suppression", "GL901", "warning", Location(path, directive.span), message, fix=fix)
        if require_reason and not directive.reason and directive.kind != "noqa":
            message = "suppression without a reason; say why after the bracket"
            yield Finding("missing-reason", "GL904", "warning", Location(path, directive.span), message)


def _unknown_verb(path: str, directive: Directive) -> Finding:
    word = directive.rules[0].word
    message = f"`graphlint: {word}` is not known, so this comment does nothing; it is `ignore[rule] reason`"
    return Finding("unknown-rule", "GL903", "warning", Location(path, directive.span), message)


def _suggest(word: str, known: Mapping[str, str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), 1, 0.6)
    return f", did you mean `{close[0]}`?" if close else ""


def _remove(source: Source, path: str, directive: Directive, names: Sequence[Named], title: str) -> Fix:
    """Takes `names` out of the directive, or the directive out of the file if none is left (or none was given)."""
    left = [n for n in directive.rules if n not in names]
    text = source.lines[directive.span.line - 1]
    if names and left:
        first, last = directive.rules[0].span, directive.rules[-1].span
        span = Span(first.line, first.column, last.line, last.end_column)
        kept = ", ".join(n.word for n in left)
        if directive.kind == "noqa":
            kept = _other_codes(text, span, names)
        return Fix(title, (Edit(path, span, kept),), True)
    if directive.kind == "noqa":
        match = _NOQA.match(text, directive.span.column - 1)
        others = _other_codes(text, directive.span, names) if match else ""
        if match and others:
            start = match.start("rules") + 1
            span = Span(directive.span.line, start, directive.span.line, match.end("rules") + 1)
            return Fix(title, (Edit(path, span, f" {others}"),), True)
    start, end = directive.span.column - 1, directive.span.end_column - 1
    before, after = text[:start], text[end:]
    line = directive.span.line
    if not before.strip() and not after.strip() and line < len(source.lines):
        return Fix(title, (Edit(path, Span(line, 1, line + 1, 1), ""),), True)
    if after.strip():
        end += len(after) - len(after.lstrip())
    else:
        start = len(before.rstrip())
        end = len(text.rstrip("\x0c \t")) if end < len(text) else end
    return Fix(title, (Edit(path, Span(line, start + 1, line, max(end, start) + 1), ""),), True)


def _other_codes(text: str, span: Span, names: Sequence[Named]) -> str:
    """The codes of a noqa comment without `names`, those of other linters included."""
    match = _NOQA.search(text)
    if match is None:
        return ""
    gone = {n.word for n in names}
    return ", ".join(word for word in re.findall(r"[A-Za-z]+\d+", match["rules"]) if word not in gone)
