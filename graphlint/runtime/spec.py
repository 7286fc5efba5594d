"""How a run is asked for, and what comes back from its process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graphlint.runtime.target import Target

#: A program with more device memory than this is emulated without values, unless it is told otherwise.
VALUES = 1 << 30


@dataclass(frozen=True, slots=True)
class Spec:
    """`survey` answers what a capture refuses and goes on; `quiet` drops the script's own output."""

    target: Target
    backend: str = "emulate"
    version: tuple[int, int] = (2, 11)
    survey: bool = False
    quiet: bool = False
    output_to: int | None = None
    """The file descriptor that the script's standard output goes to; None leaves it."""
    errors_to: int | None = None
    """The same for standard error."""
    fake: bool | None = None
    """Emulated tensors hold no values; None: from `VALUES` bytes of device memory on."""


@dataclass(slots=True)
class Result:
    """What one process saw. `outcome` is "ok", "capture-error", "wrong-result", "stale-result", "crash", "hang",
    "memory" or "error" ("too-large": values do not fit, run it without); `exit` is the script's own exit status."""

    outcome: str = "ok"
    detail: str = ""
    exit: int = 0
    device: str = ""
    torch: str = ""
    regions: list[dict[str, Any]] = field(default_factory=list)
    observations: list[dict[str, Any]] = field(default_factory=list)
    executed: dict[str, list[int]] = field(default_factory=dict)
    """Lines of the user's files that ran inside a capture."""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of each file, how many captured calls each line made."""
    strip: list[dict[str, Any]] = field(default_factory=list)
    refused: bool = False
    values: bool = True
    """Whether tensors had values."""
