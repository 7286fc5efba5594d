"""Fidelity: every rule's examples are run, and do what their headers say a GPU does.

A sample by default; GRAPHLINT_FIDELITY=all runs every example (many minutes).

Some lines need the linter's finding, too: whether a pool for each graph is wrong, whether a sequence is padded, whether
a key omits something. Their rules are left out of the share of confirmed lines here, not out of the rest.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from graphlint.runtime import worker  # noqa: E402, F401  (loaded before the forks)
from graphlint.runtime.fidelity import Labelled, Score, labelled, programs, score, table  # noqa: E402

RULES = Path(__file__).resolve().parents[1] / "rules"
JOINT = {"memory-pool", "prefill-capture", "graph-key", "capture-thread", "graph-teardown"}
PROGRAMS = [p for folder in sorted(RULES.glob("gl*")) for p in programs(folder)]


@pytest.fixture(scope="module")
def scores(request: pytest.FixtureRequest) -> list[Score]:
    every = 1 if os.environ.get("GRAPHLINT_FIDELITY") == "all" else 6
    chosen = [p for p in PROGRAMS if p.outcome != "static-only"][::every]
    # What a program prints is read from its process: pytest must not take it first.
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        return [score(p) for p in chosen]


def test_there_are_programs_for_every_rule_that_can_be_run() -> None:
    assert len(PROGRAMS) > 80
    assert {p.outcome for p in PROGRAMS} >= {"ok", "capture-error", "wrong-result", "stale-result"}


def test_fidelity(scores: list[Score]) -> None:
    fidelity, _, _, lines = table(scores)
    assert fidelity >= 0.96, "\n".join(line for line in lines if line.startswith("outcome"))


def test_nothing_is_confirmed_in_a_good_program(scores: list[Score]) -> None:
    assert [f"{s.program.main}: {text}" for s in scores for text in s.false] == []


def test_lines_are_confirmed(scores: list[Score]) -> None:
    bad = [s for s in scores if s.program.bad]
    wanted = missing = 0
    for one in bad:
        keys = {r for r, _, _, _ in one.program.wanted} - JOINT
        lost = [k for k in one.missing if k[0] not in JOINT]
        wanted += one.wanted if keys else 0
        missing += len(lost)
    assert wanted > 10
    assert 1 - missing / wanted >= 0.9, [f"{s.program.name}: {s.missing}" for s in bad if s.missing]


def test_a_label_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bad_x.py"
    path.write_text(
        "# outcome: wrong-result\nx = 1  # expect: host-sync, side-effect\ny = 2  # expect-one: graph-key@a\n"
    )
    found = labelled(path)
    assert isinstance(found, Labelled)
    assert (found.outcome, found.bad) == ("wrong-result", True)
    assert [(rule, line, tag) for rule, _, line, tag in found.wanted] == [
        ("host-sync", 2, ""),
        ("side-effect", 2, ""),
        ("graph-key", 3, "a"),
    ]
    (tmp_path / "bad_y.py").write_text("x = 1\n")
    assert labelled(tmp_path / "bad_y.py") is None
