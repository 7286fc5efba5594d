"""What is an error and what a warning: the same fault, where it is certain and where a condition decides about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import engine
from graphlint.config import Config

PROGRAM = """import torch
from somewhere import CHOSEN
x = torch.ones(4, device="cuda")
def step(x):
{body}
step(x)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = step(x)
"""
BODIES = {
    "read of either of two tensors on the GPU": ("if CHOSEN:\n    x = x * 2\nx.sum().item()", "error"),
    "read in an arm": ("if CHOSEN:\n    x.sum().item()", "warning"),
    "read of a tensor of unknown device": ("x = CHOSEN.table if CHOSEN else x\nx.sum().item()", "warning"),
    "read after a read": ("x.sum().item()\nx.max().item()", "error"),
}


@pytest.mark.parametrize(("body", "severity"), BODIES.values(), ids=list(BODIES))
def test_severity_of_the_last_finding(body: str, severity: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.format(body="\n".join(f"    {line}" for line in body.splitlines())), encoding="utf-8")
    found = engine.check([path], Config()).findings
    assert [f.severity for f in found if f.rule == "host-sync"][-1] == severity
