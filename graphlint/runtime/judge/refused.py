"""Refusals of a capture: each names a line, and how it was spelled says which rule owns it."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.runtime import events, frames
from graphlint.runtime.judge.observation import Observation

_ALWAYS = {
    "dynamic-shape": "dynamic-shape-op",
    "host-copy": "host-copy",
    "rng": "rng-misuse",
    "optimizer": "optimizer-in-capture",
}
_MISUSE = {"recapture", "replay", "graph-freed", "nested"}


def rule_of(refusal: events.Refusal) -> str | None:
    """The rule that owns the refused line, None where another judge places it."""
    if refusal.thread:
        return None
    if refusal.kind in _ALWAYS:
        return _ALWAYS[refusal.kind]
    if refusal.kind == "sync":
        through = " ".join(refusal.through)
        if "amp/grad_scaler.py" in through or "optim/" in through:
            return "optimizer-in-capture"
        return "tensor-control-flow" if refusal.spelled == "bool" and not refusal.through else "host-sync"
    if refusal.kind in _MISUSE:
        return "capture-misuse"
    return None


def judge(run: list[events.Event]) -> Iterator[Observation]:
    for event in run:
        if not isinstance(event, events.Refusal):
            continue
        at = frames.in_user_code(event.at)
        rule = rule_of(event)
        if at is None or rule is None:
            continue
        if event.kind == "nested" and event.how == "torch.compile":
            rule = "compile-cudagraphs"
        yield Observation(rule, at, f"the capture was refused here: {event.text}", event.at, event.graph, True)
