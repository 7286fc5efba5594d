"""A baseline knows its findings again after lines shift, and says what is new and what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphlint import baseline
from graphlint.engine import Report
from graphlint.finding import Finding
from graphlint.source import Location, Span


def report(path: Path, *lines: int, rule: str = "host-sync") -> Report:
    found = tuple(
        Finding(rule, "GL001", "error", Location(str(path), Span(n, 1, n, 9)), "m", function="f") for n in lines
    )
    return Report(found, targets=frozenset([str(path)]))


def save(file: Path, found: Report) -> None:
    baseline.write(file, baseline.fingerprints(found.findings, str(file.parent), baseline.Lines()))


def compare(file: Path, found: Report) -> baseline.Compared:
    return baseline.compare(found, file, {"host-sync"}, baseline.Lines(), found.targets)


def test_known_findings_are_known_after_lines_shift_and_spaces_change(tmp_path: Path) -> None:
    path, file = tmp_path / "a.py", tmp_path / "base.json"
    path.write_text("x.item()\ny.item()\n")
    save(file, report(path, 1, 2))
    path.write_text("# new\n\n  x.item( )\n\ty.item()\nz.item()\n".replace("( )", "()"))
    compared = compare(file, report(path, 3, 4, 5))
    assert [f.at.line for f in compared.report.findings] == [5]
    assert (compared.known, compared.stale) == (2, ())


def test_one_more_of_equal_findings_is_new(tmp_path: Path) -> None:
    path, file = tmp_path / "a.py", tmp_path / "base.json"
    path.write_text("x.item()\nx.item()\nx.item()\n")
    save(file, report(path, 1, 2))
    assert [f.at.line for f in compare(file, report(path, 1, 2, 3)).report.findings] == [3]


def test_what_is_gone_is_stale_but_only_where_it_was_looked_for(tmp_path: Path) -> None:
    path, other, file = tmp_path / "a.py", tmp_path / "b.py", tmp_path / "base.json"
    path.write_text("x.item()\n")
    other.write_text("x.item()\n")
    save(file, Report(report(path, 1).findings + report(other, 1).findings))
    assert [e.path for e in compare(file, report(path)).stale] == ["a.py"]
    other.unlink()
    assert [e.path for e in compare(file, report(path)).stale] == ["a.py", "b.py"]
    unrun = baseline.compare(report(path), file, {"stale-input"}, baseline.Lines(), [str(path)])
    assert unrun.stale == ()


def test_installed_packages_are_named_without_their_environment(tmp_path: Path) -> None:
    assert baseline.relative("/v1/lib/python3.11/site-packages/m/a.py", "/p") == "site-packages/m/a.py"
    assert baseline.relative("/p/src/a.py", "/p") == "src/a.py"


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"version": 1}', '{"version": 1, "findings": [{"path": 1}]}', "\xff", "[" * 9000]
)
def test_a_file_that_is_no_baseline_is_one_clear_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "base.json"
    file.write_text(text)
    with pytest.raises(baseline.BaselineError, match="is no baseline"):
        baseline.read(file)


def test_a_baseline_reads_well_in_a_diff(tmp_path: Path) -> None:
    path, file = tmp_path / "a.py", tmp_path / "base.json"
    path.write_text("x.item()\ny.item()\n")
    save(file, report(path, 2, 1))
    rows = file.read_text().splitlines()
    assert sum('"rule"' in row for row in rows) == 2
    assert baseline.read(file) == set(
        baseline.fingerprints(report(path, 1, 2).findings, str(tmp_path), baseline.Lines())
    )
