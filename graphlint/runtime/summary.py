"""The captures of a run, as the report shows them."""

from __future__ import annotations

from typing import Any

from graphlint.runtime import events, frames
from graphlint.runtime.spec import Result
from graphlint.runtime.watch.rehearsals import Rehearsals

#: Operations that a report shows.
MAX_STRIP = 20_000
#: Inputs and outputs of one graph that a report lists.
MAX_STATIC = 256


def summarise(run: list[events.Event], machine: Any, result: Result, rehearsals: Rehearsals | None = None) -> None:
    """Fills `result.regions`, its outcome and the counts of captured calls per line."""
    regions: dict[int, dict[str, Any]] = {}
    causes: dict[int, events.Refusal] = {}
    streams: dict[int | None, int] = {}
    """Of each graph, the stream that worked last: there a refused call would have run."""
    for event in run:
        if isinstance(event, events.CaptureBegin):
            at = frames.in_user_code(event.at)
            streams[event.graph] = event.stream
            regions[event.graph] = {
                "kind": event.kind,
                "path": at.path if at else "",
                "line": at.line if at else 0,
                "function": at.function if at else "",
                "graph": event.graph,
                "captured": False,
                "calls": 0,
                "replays": 0,
                "pool_bytes": 0,
                "error": None,
                "warm_ups": rehearsals.warm_ups(event.graph) if rehearsals is not None else None,
                "inputs": [],
                "parameters": {"count": 0, "bytes": 0},
                "outputs": [],
                "timing": None,
            }
        elif isinstance(event, events.CaptureEnd) and event.graph in regions:
            region = regions[event.graph]
            region["captured"] = event.error is None
            region["calls"], region["pool_bytes"] = event.calls, event.pool_bytes
            parameters = [s for s in event.inputs if s.parameter]
            region["parameters"] = {"count": len(parameters), "bytes": sum(s.bytes for s in parameters)}
            region["inputs"] = [_static(s) for s in event.inputs if not s.parameter][:MAX_STATIC]
            region["outputs"] = [_static(s) for s in event.outputs][:MAX_STATIC]
            if event.error is not None:
                cause = causes.get(event.graph)
                at = frames.in_user_code(cause.at if cause is not None else event.at)
                region["error"] = {
                    "text": cause.text if cause is not None else event.error,
                    "path": at.path if at else "",
                    "line": at.line if at else 0,
                    "chain": [[s.path, s.line, s.function] for s in (cause.at if cause is not None else event.at)[:8]],
                }
        elif isinstance(event, events.Refusal):
            if event.graph is not None:
                causes.setdefault(event.graph, event)
                refused = regions.get(event.graph)
                if refused is not None and not refused["captured"] and refused["error"] is None:
                    at = frames.in_user_code(event.at)
                    refused["error"] = {
                        "text": event.text,
                        "path": at.path if at else "",
                        "line": at.line if at else 0,
                        "chain": [[s.path, s.line, s.function] for s in event.at[:8]],
                    }
        elif isinstance(event, events.Replay) and event.graph in regions:
            regions[event.graph]["replays"] += 1
        elif isinstance(event, events.Call):
            streams[event.graph] = event.stream
            at = frames.in_user_code(event.at)
            if at is not None:
                lines = result.counts.setdefault(at.path, {})
                lines[str(at.line)] = lines.get(str(at.line), 0) + 1
        if isinstance(event, (events.Call, events.Refusal)) and len(result.strip) < MAX_STRIP:
            at = frames.in_user_code(event.at)
            result.strip.append(
                {
                    "stream": streams.get(event.graph, 0),
                    "name": event.how if isinstance(event, events.Refusal) else event.name.removeprefix("aten::"),
                    "path": at.path if at else "",
                    "line": at.line if at else 0,
                    "sync": isinstance(event, events.Refusal),
                }
            )
    for region in regions.values():
        if region["error"] is None or not region["captured"]:
            continue
        if getattr(machine, "fake", False):
            region["captured"] = False  # such a run answers what a capture refuses, and goes on
        else:
            region["error"] = None
    times = getattr(rehearsals, "times", None)
    for number, region in regions.items():
        if times is not None and region["captured"]:
            region["timing"] = times(number)
    result.regions = list(regions.values())


def _static(static: events.Static) -> dict[str, Any]:
    return {"shape": list(static.shape), "dtype": static.dtype, "bytes": static.bytes}
