"""How sure it is that a value lives on the GPU and that a region's past was seen, and how a finding says so.

Glossary:
    sure     the tensor is known to be on the GPU: an error. Of a past: all of it was followed.
    likely   its device is not known, but captured code works on it and nothing speaks for the CPU: a warning. Of a
             past: a call was left early, so what was not seen may have run all the same.
    no       it is on the CPU, pinned, or named as something that is (`lens_cpu`, `host_ids`, the user's `cpu-names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from typing import Literal

from graphlint.fact import Fact
from graphlint.finding import Note, Problem, Severity
from graphlint.region import Region, Settings
from graphlint.value import Tensor, Value, tensors

Certainty = Literal["sure", "likely", "no"]
_CPU_NAME = re.compile(r"(^|_)(cpu|host|np|numpy|list|pinned)(_|$)", re.IGNORECASE)

#: Regions where torch raises: `torch.compile` breaks its graph, or falls back, instead.
CAPTURING = frozenset({"graph", "begin-end", "accelerator-graph", "graphed-callables", "cuda-graph-module", "root"})


def certainty(tensor: Tensor, settings: Settings) -> Certainty:
    """Whether a tensor is on the GPU."""
    if tensor.device == "cuda":
        return "sure"
    if tensor.device == "cpu" or tensor.storage.pinned:
        return "no"
    name = tensor.place.name if tensor.place is not None else ""
    if name and (_CPU_NAME.search(name) or any(fnmatch(name, pattern) for pattern in settings.cpu_names)):
        return "no"
    return "likely"


def any_gpu(values: Iterable[Value], settings: Settings, depth: int = 1) -> Certainty:
    """The surest of all tensors in `values`."""
    found = {certainty(t, settings) for value in values for t in tensors(value, depth)}
    return "sure" if "sure" in found else "likely" if "likely" in found else "no"


def past(region: Region) -> Certainty:
    """Whether all that ran before the capture was seen."""
    return "likely" if region.hurried else "sure"


def may_have_moved(region: Region, device: Certainty, weight: bool = False) -> bool:
    """True if a tensor may have been moved where nobody looked: its device is a guess, or it belongs to a model."""
    return past(region) != "sure" and (device == "likely" or weight)


def problem(
    region: Region, fact: Fact, message: str, doubt: Certainty = "sure", notes: tuple[Note, ...] = ()
) -> Problem:
    """A finding at `fact`: a warning where the device is not known or the fact stands under an unknown condition."""
    severity: Severity | None = "warning" if doubt == "likely" or fact.maybe else None
    return Problem(fact.at, message, (*region.way(fact), *notes)[:5], None, severity, fact.function)


def once(problems: Iterable[Problem]) -> Iterator[Problem]:
    """One finding for each line: the first, or the first that is an error."""
    kept: dict[tuple[str, int], Problem] = {}
    for found in problems:
        key = (found.at.path, found.at.line)
        if key not in kept or (kept[key].severity == "warning" and found.severity is None):
            kept[key] = found
    yield from kept.values()


def spelled(text: str, fallback: str) -> str:
    """How the source spells a call, short enough for a message."""
    text = " ".join((text or fallback).split())
    return text if len(text) <= 60 else text[:57] + "..."
