"""What a capture saves: the time of its replays, and of the same calls when they ran without a graph.

Only what the program does itself is timed, by CUDA events before and after: its replays, and the calls outside of the
capture that launched the same work, warm-up runs in the first place. Nothing is run for the sake of timing, and events
change nothing but the time that recording them takes. Times are those of the device's stream: where the host cannot
keep up, they hold the gaps between kernels, which is what a graph saves.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch

from graphlint.runtime.watch.journal import Activation, Journal, Step
from graphlint.runtime.watch.rehearsals import Key, Rehearsals, text_of

#: Calls of one kind, and replays of one graph, that are timed.
CALLS, REPLAYS = 12, 30
#: Events that one run may make.
EVENTS = 20_000
#: Seconds to wait at the end for what is still under way on the device.
PATIENCE = 2.0
#: A graph is worth it if it saves more than this part of the eager time.
WORTH = 0.1

Span = tuple[Any, Any]


class Timing(Rehearsals):
    """Journal of times. `times()` tells them once the program is done."""

    def __init__(self, machine: Any, journal: Journal) -> None:
        super().__init__(machine, journal)
        self.spans: dict[Key, list[Span]] = {}
        self.replays: dict[int, list[Span]] = {}
        self.made = 0
        machine.timing = self

    def _mark(self) -> Any:
        if self.made >= EVENTS or not torch.cuda.is_initialized() or self.machine.capture is not None:
            return None
        try:
            if torch.cuda.is_current_stream_capturing():
                return None
            event = torch.cuda.Event(enable_timing=True)
            event.record()
        except RuntimeError:
            self.made = EVENTS  # a device that refuses this has a fault that is the program's to tell
            return None
        self.made += 1
        return event

    def _begin(self, key: Key) -> Any:
        return self._mark() if key is not None and len(self.spans.get(key, ())) < CALLS else None

    def _end(self, key: Key, begun: Any) -> None:
        if begun is not None and (ended := self._mark()) is not None:
            self.spans.setdefault(key, []).append((begun, ended))

    def entered(self, activation: Activation) -> None:
        super().entered(activation)
        if activation.number:
            activation.data["begun"] = self._begin(activation.frame.f_code)

    def returned(self, activation: Activation, value: Any) -> None:
        self._end(activation.frame.f_code, activation.data.pop("begun", None))

    def begins(self, step: Step) -> None:
        super().begins(step)
        if step.graph is None:
            step.notes["begun"] = self._begin(text_of(step.path, step.statement))

    def done(self, step: Step) -> None:
        super().done(step)
        self._end(text_of(step.path, step.statement), step.notes.pop("begun", None))

    def replay(self, number: int) -> Any:
        """Before a replay; give what this returns to `replayed` after it."""
        return self._mark() if len(self.replays.get(number, ())) < REPLAYS else None

    def replayed(self, number: int, begun: Any) -> None:
        if begun is not None and (ended := self._mark()) is not None:
            self.replays.setdefault(number, []).append((begun, ended))

    # ------------------------------------------------------------ what came out
    def times(self, graph: int) -> dict[str, Any] | None:
        """Of one graph: eager and replay milliseconds and what is saved; None if no replay was timed.

        `eager_ms` is None where the calls in the capture were never seen outside of one.
        """
        replays = _milliseconds(self.replays.get(graph, []))
        if not replays:
            return None
        found: dict[str, Any] = {"replay_ms": _round(statistics.median(replays)), "replays": len(replays)}
        eager = self._eager(graph)
        found["eager_ms"] = _round(eager) if eager is not None else None
        if eager is not None:
            replay = statistics.median(replays)
            found["saved_ms"] = _round(eager - replay)
            found["speedup"] = round(eager / max(replay, 1e-6), 2)
            found["worth"] = eager - replay > WORTH * eager
        return found

    def _eager(self, graph: int) -> float | None:
        content = self.contents.get(graph)
        if content is None or not content.calls:
            return None
        total = 0.0
        for call in content.calls:
            parts = [self._typical(key) for key in call.functions]
            known = [p for p in parts if p is not None]
            whole = self._typical(call.text) if call.text is not None else None
            if known and len(known) == len(parts):
                total += sum(known)
            elif whole is not None:
                total += whole
            else:
                return None
        return total

    def _typical(self, key: Key) -> float | None:
        times = _milliseconds(self.spans.get(key, []))
        # the first call sets libraries up
        return statistics.median(times[1:] or times) if times else None


def _milliseconds(spans: list[Span]) -> list[float]:
    """The times of those that are done."""
    found: list[float] = []
    end = time.monotonic() + PATIENCE
    for begun, ended in spans:
        try:
            while not ended.query():
                if time.monotonic() > end:
                    return found
                time.sleep(0.001)
            found.append(float(begun.elapsed_time(ended)))
        except RuntimeError:
            return found
    return found


def _round(value: float) -> float:
    return float(f"{value:.4g}")
