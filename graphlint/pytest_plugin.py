"""pytest plugin; loaded by pytest in every run, so it imports nothing heavy.

def test_decode(graph_safe):
    graph_safe(step, inputs)

@pytest.mark.graph_safe(backend="emulate", ignore=["side-effect"])
def test_other(graph_safe): ...
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from graphlint.runtime.api import Trace


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        'graph_safe(backend="auto", ignore=[]): how the graph_safe fixture captures, and which rules it leaves out',
    )


@pytest.fixture
def graph_safe(request: pytest.FixtureRequest) -> Callable[..., Trace]:
    """Captures a callable on the given inputs and fails with the findings and their lines.

    Emulated where there is no GPU, really captured where there is one. Returns the Trace.
    """
    marker = request.node.get_closest_marker("graph_safe")
    options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    unknown = set(options) - {"backend", "ignore"}
    if unknown:
        raise pytest.UsageError(f"graph_safe takes backend and ignore, not {', '.join(sorted(unknown))}")

    def check(step: Callable[..., Any], *inputs: Any) -> Trace:
        __tracebackhide__ = True
        try:
            import torch  # noqa: F401
        except ImportError:
            pytest.skip("torch is not installed")
        from graphlint.runtime.api import trace

        if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
            inputs = tuple(inputs[0])
        found = trace(step, *inputs, backend=options.get("backend", "auto"), ignore=tuple(options.get("ignore", ())))
        if not found.ok:
            pytest.fail(f"not safe under a CUDA graph ({found.backend}):\n{found.text()}", pytrace=False)
        return found

    return check
