"""torch.compile regions: the wrapped function itself, with the rules of cudagraph trees."""

from __future__ import annotations

from typing import Any

from graphlint.runtime.emulate.machine import Machine


def patches(machine: Machine) -> dict[str, Any]:
    """Replaced below."""
    return {}
