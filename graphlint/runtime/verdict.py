"""Joins what the linter says with what a run showed: confirmed, refuted or not reached, and what only the run
showed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphlint.finding import Finding, Note, Severity
from graphlint.registry import ToolRule
from graphlint.rule import Rule
from graphlint.runtime.syntax import statement_at
from graphlint.source import Location, Span

#: How far a finding may reach, and how many of its steps count as its places.
REACH, STEPS = 15, 6
#: Rules whose faults make a capture fail, so that one that succeeds refutes them.
LOUD = frozenset({"dynamic-shape-op", "host-copy", "host-sync", "tensor-control-flow", "capture-thread"})
Spot = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """An observation as it comes out of a traced process."""

    rule: str
    path: str
    line: int
    function: str
    evidence: str
    chain: tuple[tuple[str, int, str], ...]
    weak: bool = False
    """It only supports a finding of the linter."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Seen:
        chain = tuple((str(p), int(n), str(f)) for p, n, f in data["chain"])
        return cls(
            data["rule"],
            real(data["path"]),
            int(data["line"]),
            data["function"],
            data["evidence"],
            chain,
            bool(data["weak"]),
        )


def real(path: str) -> str:
    return os.path.realpath(path)


def join(
    static: Sequence[Finding],
    suppressed: Sequence[Finding],
    seen: Sequence[Seen],
    executed: Mapping[str, Iterable[int]],
    rules: Mapping[str, Rule | ToolRule],
    captured: bool,
    blind: str | None = None,
) -> list[Finding]:
    """All findings with their verdicts, in order of place.

    executed: lines of each file that ran inside a capture. captured: whether any capture succeeded and was replayed.
    blind: why faults that raise no error could not be seen, None if they could.
    """
    ran = {real(path): set(lines) for path, lines in executed.items()}
    silent = {(f.rule, spot) for f in suppressed for spot in _spots(f)}
    found: list[Finding] = []
    met: set[Seen] = set()
    for finding in static:
        spots = _spots(finding)
        proofs = [s for s in seen if s.rule == finding.rule and _meets(s, finding, spots)]
        if proofs:
            met.update(proofs)
            found.append(replace(finding, verdict="confirmed", evidence=proofs[0].evidence))
        elif any(line in ran.get(path, ()) for path, line in _own(finding)):
            if captured and (blind is None or finding.rule in LOUD):
                found.append(
                    replace(
                        finding, verdict="refuted", evidence="the line ran inside a capture and did no harm in this run"
                    )
                )
            else:
                why = blind if captured and blind is not None else "no capture got to a replay"
                found.append(replace(finding, verdict="not-reached", evidence=f"the line ran, but {why}"))
        else:
            found.append(
                replace(finding, verdict="not-reached", evidence="the line did not run inside a capture in this run")
            )
    for one in seen:
        place = one.rule, (one.path, one.line)
        if one not in met and not one.weak and place not in silent:
            silent.add(place)  # the same may be seen in several runs
            found.append(_finding(one, rules))
    return sorted(found, key=lambda f: (f.at.path, f.at.span, f.code))


def _own(finding: Finding) -> set[Spot]:
    span = finding.at.span
    last = min(span.end_line, span.line + REACH)
    return {(real(finding.at.path), n) for n in range(span.line, last + 1)}


def _spots(finding: Finding) -> set[Spot]:
    return _own(finding) | {(real(n.at.path), n.at.line) for n in finding.notes[:STEPS]}


def _meets(seen: Seen, finding: Finding, spots: set[Spot]) -> bool:
    own = _own(finding)
    if (seen.path, seen.line) in own:
        return True
    # a finding that names the place as the way to it, or whose place is on the way to what was seen
    return (seen.path, seen.line) in spots or any((real(p), n) in own for p, n, _ in seen.chain[:STEPS])


def _finding(seen: Seen, rules: Mapping[str, Rule | ToolRule]) -> Finding:
    rule = rules.get(seen.rule)
    severity: Severity = rule.severity if rule is not None else "error"
    code = rule.code if rule is not None else "GL000"
    statement = statement_at(seen.path, seen.line)
    column, end_line, end_column = 1, seen.line, 1
    if statement is not None and statement.first == seen.line:
        column = statement.node.col_offset + 1
        end_line = statement.last
        if statement.node.end_lineno == end_line and statement.node.end_col_offset is not None:
            end_column = statement.node.end_col_offset + 1
        else:
            end_line, end_column = seen.line, column
    notes = tuple(
        Note(Location(path, Span(line, 1, line, 1)), f"in `{function}`")
        for path, line, function in seen.chain[:STEPS]
        if (real(path), line) != (seen.path, seen.line)
    )
    return Finding(
        seen.rule,
        code,
        severity,
        Location(seen.path, Span(seen.line, column, end_line, end_column)),
        seen.evidence,
        notes[::-1],
        None,
        seen.function if seen.function != "<module>" else "",
        "confirmed",
        seen.evidence,
    )
