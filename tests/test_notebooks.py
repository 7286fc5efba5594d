"""Notebooks: cells joined, magics masked, places counted in their cells."""

from __future__ import annotations

import json
from pathlib import Path

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
