"""The trace as a person reads it in a terminal."""

from __future__ import annotations

import linecache
from typing import Any

_MARKS = {"confirmed": "\x1b[31m", "refuted": "\x1b[32m", "not-reached": "\x1b[2m"}


def render(traced: Any, view: Any) -> str:
    """Regions first, then findings by verdict, then one line that sums up."""
    out: list[str] = []

    def paint(code: str, text: str) -> str:
        return f"{code}{text}\x1b[0m" if view.color else text

    for region in traced.first.regions:
        where = f"{view.path(region['path'])}:{region['line']}"
        if region["captured"]:
            out.append(
                f"{where}: captured {region['calls']} calls, replayed {region['replays']} times, "
                f"pool {_bytes(region['pool_bytes'])}"
            )
            out += [f"    {line}" for line in details(region)]
        else:
            out.append(paint("\x1b[31m", f"{where}: not captured"))
            error = region["error"]
            if error is not None:
                out.append(f"    {error['text']}")
                for path, line, function in error["chain"]:
                    source = linecache.getline(path, line).strip()
                    out.append(f"    {view.path(path)}:{line} in {function}: {source}")
    if traced.first.regions and traced.findings:
        out.append("")
    ranks = ("confirmed", "refuted", "not-reached")
    for finding in sorted(traced.findings, key=lambda f: ranks.index(f.verdict or "not-reached")):
        where = f"{view.path(finding.at.path)}:{finding.at.line}:{finding.at.span.column}"
        verdict = finding.verdict or "not-reached"
        out.append(f"{where}: {paint(_MARKS[verdict], verdict)} {finding.code}[{finding.rule}] {finding.message}")
        if finding.evidence and finding.evidence != finding.message:
            out.append(f"    {finding.evidence}")
        source = linecache.getline(finding.at.path, finding.at.line).strip()
        if source:
            out.append(f"    | {source}")
    counts = {v: sum(f.verdict == v for f in traced.findings) for v in ranks}
    backend = "emulated" if traced.spec.backend == "emulate" else traced.first.device
    backend += "" if traced.first.values else ", without values"
    if out:
        out.append("")
    summed = ", ".join(f"{n} {v.replace('-', ' ')}" for v, n in counts.items() if n) or "no findings"
    regions = len(traced.first.regions)
    what = f"{regions} capture{'s' if regions != 1 else ''}" if regions else "no capture was made"
    out.append(f"{what} ({backend}, torch {traced.first.torch}): {traced.outcome}; {summed}")
    if traced.detail and traced.outcome not in ("ok",):
        out.append(f"    {traced.detail}")
    return "\n".join(out) + "\n"


def details(region: dict[str, Any]) -> list[str]:
    """What a captured region reads and leaves, how it was warmed up, and what it saves."""
    lines = []
    parameters = region["parameters"]
    reads = [_tensors("static input", region["inputs"])] if region["inputs"] else []
    if parameters["count"]:
        count = parameters["count"]
        reads.append(f"{count} parameter{'s' if count != 1 else ''}, {_bytes(parameters['bytes'])}")
    if reads:
        lines.append("; ".join(reads))
    if region["outputs"]:
        lines.append(_tensors("output", region["outputs"]))
    if region["warm_ups"] is not None:
        lines.append(f"warm-up runs before it: {region['warm_ups']}")
    timing = region["timing"]
    if timing is not None and timing["eager_ms"] is None:
        lines.append(
            f"replay {timing['replay_ms']:g} ms; eager is unknown: the same calls never ran outside of a capture"
        )
    elif timing is not None:
        lines.append(
            f"eager {timing['eager_ms']:g} ms, replay {timing['replay_ms']:g} ms: "
            + (
                f"{timing['saved_ms']:g} ms of launching saved at each step, {timing['speedup']:g}x, worth it"
                if timing["worth"]
                else f"{timing['saved_ms']:g} ms saved at each step, which is hardly worth a graph"
            )
        )
    return lines


def _tensors(what: str, statics: list[dict[str, Any]], shown: int = 4) -> str:
    total = _bytes(sum(s["bytes"] for s in statics))
    shapes = [f"{'x'.join(map(str, s['shape'])) or 'scalar'} {s['dtype']}" for s in statics[:shown]]
    more = f" and {len(statics) - shown} more" if len(statics) > shown else ""
    return f"{len(statics)} {what}{'s' if len(statics) != 1 else ''}, {total}: {', '.join(shapes)}{more}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
