"""What a judge says: a rule, a line, and what was seen there."""

from __future__ import annotations

from dataclasses import dataclass

from graphlint.runtime.frames import Site


@dataclass(frozen=True, slots=True)
class Observation:
    """`rule` was broken at `at`; `evidence` is one sentence of what happened, `chain` the stack, innermost first."""

    rule: str
    at: Site
    evidence: str
    chain: tuple[Site, ...] = ()
    graph: int | None = None
    refusal: bool = False
    """Whether the capture itself was refused here."""
    weak: bool = False
    """It supports a finding of the linter, and proves none by itself."""
    memory: bool = False
    """It costs memory, and spoils no result."""
