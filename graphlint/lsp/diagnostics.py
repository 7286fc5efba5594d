"""Findings as an editor shows them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lsprotocol import types as lsp

from graphlint.finding import Finding, Severity
from graphlint.lsp.positions import Shift
from graphlint.report.view import harmless
from graphlint.source import Location

_SEVERITIES: Mapping[Severity, lsp.DiagnosticSeverity] = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "note": lsp.DiagnosticSeverity.Information,
}


def shown_code(finding: Finding) -> str:
    return f"{finding.code}[{finding.rule}]"


def diagnostic(finding: Finding, place: Callable[[Location], lsp.Location], *, related: bool) -> lsp.Diagnostic:
    """One finding. `place` says where something is for the client; `related`: the client shows places that belong to
    a finding; for others the message names them."""
    information = [lsp.DiagnosticRelatedInformation(place(note.at), harmless(note.message)) for note in finding.notes]
    message = finding.message
    if not related:
        rows = [f"{n.message}: {os.path.basename(n.at.path)}:{n.at.line}" for n in finding.notes]
        message = "\n".join([message, *rows])
    return lsp.Diagnostic(
        range=place(finding.at).range,
        message="\n".join(harmless(row) for row in message.split("\n")),
        severity=_SEVERITIES[finding.severity],
        code=shown_code(finding),
        source="graphlint",
        tags=[lsp.DiagnosticTag.Unnecessary] if finding.rule == "unused-suppression" else None,
        related_information=information if related and information else None,
        data={"rule": finding.rule, "code": finding.code, "fixable": finding.fix is not None},
    )


def moved(findings: Sequence[Finding], old: Sequence[str], new: Sequence[str]) -> list[Finding]:
    """Findings of a text, at their places in a later text of the same file; those whose lines were edited are gone."""
    shift = Shift(old, new)
    found = []
    for finding in findings:
        span = shift.span(finding.at.span)
        if span is not None:
            notes = tuple(
                replace(n, at=replace(n.at, span=shift.span(n.at.span) or n.at.span))
                if n.at.path == finding.at.path
                else n
                for n in finding.notes
            )
            found.append(replace(finding, at=replace(finding.at, span=span), notes=notes))
    return found


def result_id(diagnostics: Sequence[lsp.Diagnostic]) -> str:
    """Equal for equal diagnostics."""
    return hashlib.blake2b(repr(list(diagnostics)).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
