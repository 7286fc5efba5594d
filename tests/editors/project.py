"""A small project that all editors open: a capture in one file, the line that breaks it in another."""

from __future__ import annotations

from pathlib import Path

RUNNER = """import torch
from scaling import scale

x = torch.ones(8, device="cuda")
w = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
scale(x, w)
with torch.cuda.graph(graph):
    out = scale(x, w)
graph.replay()
"""

SCALING = '''def scale(x, w):
    """Scales by the largest weight."""
    peak = w.abs().max()
    return x / peak
'''

#: The same with a host read behind wide characters: its column differs in every encoding.
BROKEN = '''def scale(x, w):
    """Scales by the largest weight."""
    s = "日本語😀"; peak = w.max().item()
    return x / peak
'''

#: `sum` is read twice in the capture; the rule supplies a fix for neither, so it is silenced with a reason.
SINGLE = """import torch

x = torch.ones(8, device="cuda")
graph = torch.cuda.CUDAGraph()
(x * 2).sum()
with torch.cuda.graph(graph):
    s = "日本語😀"; total = x.sum().item()
graph.replay()
"""


def write(folder: Path, **files: str) -> Path:
    """The project with `runner`, `scaling` and whatever else is given, by module name."""
    (folder / "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1"\n\n[tool.graphlint]\n')
    for name, text in {"runner": RUNNER, "scaling": SCALING, **files}.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder
