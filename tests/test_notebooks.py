"""Notebooks: cells joined, magics masked, places counted in their cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphlint import notebooks
from graphlint.source import SourceError
from tests.helpers import as_json, graphlint, rule_folder

OWN = ("--rule-folder", "../own_rules", "--select", "host-read,unreadable-file")


def notebook(*cells: str, **metadata: object) -> str:
    made = [{"cell_type": "markdown", "source": ["# title\n", "text"]}]
    made += [{"cell_type": "code", "source": c.splitlines(keepends=True), "outputs": []} for c in cells]  # type: ignore[dict-item]
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.parametrize(
    ("cell", "masked"),
    [
        ("%matplotlib inline\nx = 1", ["pass", "x = 1"]),
        ("if a:\n    !ls -l \\\n  more\nx = 1", ["if a:", "    pass", "", "x = 1"]),
        ("files = !ls\ny = %env HOME\nx?\nx.y??", ["pass"] * 4),
        ("%%bash\nrm -rf x\n", ["", "", ""]),
        ("%%time\nx = 1", ["pass", "x = 1"]),
        ('s = """\n% of it\n"""\nx = a % b', ['s = """', "% of it", '"""', "x = a % b"]),
        ("a != b\nx = y % z\nf(*a)", ["a != b", "x = y % z", "f(*a)"]),
    ],
)
def test_magics_are_masked_and_lines_stay(cell: str, masked: list[str]) -> None:
    assert notebooks.mask(cell) == masked


def test_places_are_counted_in_their_cells(tmp_path: Path) -> None:
    rule_folder(tmp_path)
    project = tmp_path / "p"
    project.mkdir()
    text = notebook(
        "%load_ext autoreload\nimport torch\nx = torch.ones(8, device='cuda')",
        "g = torch.cuda.CUDAGraph()\n(x * 2).sum()\nwith torch.cuda.graph(g):\n"
        "    total = (x * 2).sum()\n    total.item()",
    )
    (project / "a.ipynb").write_text(text)
    report = as_json(".", *OWN, cwd=project)
    (finding,) = report["findings"]
    assert (finding["path"], finding["cell"], finding["line"], finding["column"]) == ("a.ipynb", 3, 5, 5)
    assert finding["trace"][0]["line"] == 3
    run = graphlint("a.ipynb", *OWN, cwd=project)
    assert run.stdout.startswith("a.ipynb:cell 3:5:5: error USR001[host-read]")
    assert "5 |     total.item()" in run.stdout
    sarif = json.loads(graphlint("a.ipynb", *OWN, "-f", "sarif", cwd=project).stdout)
    (result,) = sarif["runs"][0]["results"]
    assert result["message"]["text"].startswith("cell 3: ")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a.ipynb"


def test_suppressions_and_baselines_work_in_cells(tmp_path: Path) -> None:
    rule_folder(tmp_path)
    project = tmp_path / "p"
    project.mkdir()
    cell = "import torch\nx = torch.ones(8, device='cuda')\ng = torch.cuda.CUDAGraph()\n(x * 2).sum()\n"
    cell += "with torch.cuda.graph(g):\n    (x * 2).sum().item()"
    (project / "a.ipynb").write_text(notebook(cell))
    assert graphlint("baseline", "a.ipynb", *OWN, cwd=project).returncode == 0
    (project / "a.ipynb").write_text(notebook("y = 1", cell))
    known = ("--baseline", "graphlint-baseline.json")
    assert as_json("a.ipynb", *OWN, *known, cwd=project)["findings"] == []
    (project / "a.ipynb").write_text(notebook(cell + "  # graphlint: ignore[host-read] a test"))
    assert as_json("a.ipynb", *OWN, cwd=project)["findings"] == []


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"nonsense", b'{"cells": 3}', b'{"cells": [1]}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_notebook_is_one_clear_line(data: bytes) -> None:
    with pytest.raises(SourceError, match="is no notebook"):
        notebooks.parse(data)


def test_a_broken_notebook_is_a_finding(tmp_path: Path) -> None:
    rule_folder(tmp_path)
    project = tmp_path / "p"
    project.mkdir()
    (project / "a.ipynb").write_text("nonsense")
    report = as_json(".", *OWN, cwd=project)
    assert [(f["code"], f["message"]) for f in report["findings"]] == [("GL902", "is no notebook")]


def test_notebooks_in_other_languages_are_left_alone() -> None:
    text = notebook("x <- 1", kernelspec={"language": "R"})
    assert notebooks.parse(text.encode()).joined == ""


FAULT = (
    "import torch\n%matplotlib inline\nx = torch.ones(8, device='cuda')",
    "%%bash\necho hi",
    "g = torch.cuda.CUDAGraph()\n(x * 2).sum()\n"
    "with torch.cuda.graph(g):\n    y = x * 2  # graphlint: ignore[host-read] x",
)


@pytest.mark.parametrize(
    ("new", "cells"),
    [
        (lambda t: t, {}),
        (lambda t: t.replace("y = x * 2", "y = x * 3"), {4: "y = x * 3"}),
        (lambda t: t.replace("g = torch", "h = 1\ng = torch"), {4: "h = 1\ng = torch"}),
        (lambda t: t.replace("import torch\n", ""), {2: "%matplotlib inline\nx ="}),
        (lambda t: "import os\n" + t, {2: "import os\nimport torch\n%matplotlib"}),
        (lambda t: t + "z = 1\n", {4: "ignore[host-read] x\nz = 1"}),
    ],
)
def test_changes_go_back_to_their_cells(new: Callable[[str], str], cells: dict[int, str]) -> None:
    book = notebooks.parse(notebook(*FAULT).encode())
    changed = notebooks.changed_cells(book, new(book.joined))
    assert set(changed) == set(cells)
    for number, text in cells.items():
        assert text in changed[number]


@pytest.mark.parametrize(
    "new",
    [
        lambda t: t.replace("pass", "x = 1"),
        lambda t: t.replace("x = torch", "y = torch\nh = 1").replace("g = ", "f = ").replace("\n\n\n", "\n"),
    ],
)
def test_changes_that_no_cell_can_hold_are_refused(new: Callable[[str], str]) -> None:
    book = notebooks.parse(notebook(*FAULT).encode())
    with pytest.raises(SourceError, match="not applied"):
        notebooks.changed_cells(book, new(book.joined))


@pytest.mark.parametrize("style", [{"indent": 1, "ensure_ascii": False}, {"indent": 4}, {}])
def test_fixes_are_written_into_the_cell_and_nothing_else_changes(tmp_path: Path, style: dict[str, Any]) -> None:
    rule_folder(tmp_path)
    project = tmp_path / "p"
    project.mkdir()
    raw = json.dumps(json.loads(notebook("s = 'é'", *FAULT, kernelspec={"language": "python"})), **style) + "\n"
    (project / "a.ipynb").write_text(raw, encoding="utf-8")
    wanted = ("--select", "unused-suppression,host-read", "--rule-folder", "../own_rules")
    shown = graphlint("a.ipynb", *wanted, "--diff", cwd=project)
    assert shown.returncode == 1 and "+++ b/a.ipynb:cell 5\n" in shown.stdout
    assert "-    y = x * 2  # graphlint: ignore[host-read] x\n" in shown.stdout and "+    y = x * 2\n" in shown.stdout
    assert (project / "a.ipynb").read_text(encoding="utf-8") == raw
    assert graphlint("a.ipynb", *wanted, "--fix", cwd=project).returncode == 0
    fixed = (project / "a.ipynb").read_text(encoding="utf-8")
    assert fixed == raw.replace("  # graphlint: ignore[host-read] x", "")
