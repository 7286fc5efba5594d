"""Every rule's examples: a bad one is reported on the marked lines and nowhere else, a good one not at all.

Each is checked in a folder of its own, as a user's project would be; nothing is run.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from graphlint import engine
from graphlint.config import Config
from graphlint.registry import Registry, load_rules

RULES = Path(__file__).resolve().parents[1] / "rules"
OUTCOMES = {"capture-error", "wrong-result", "stale-result", "slow", "memory", "hang", "ok", "static-only"}
EXAMPLES = sorted(p for folder in RULES.glob("gl*") for p in folder.iterdir() if p.name.startswith(("bad_", "good_")))
Line = tuple[str, int, str]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_rules([])


def modules(example: Path) -> list[Path]:
    return [example] if example.is_file() else sorted(example.glob("*.py"))


def expectations(example: Path) -> tuple[set[Line], dict[str, set[Line]]]:
    """Lines that must be reported, and by tag the lines of which one is enough."""
    every: set[Line] = set()
    one: dict[str, set[Line]] = defaultdict(set)
    for path in modules(example):
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for kind, names in re.findall(r"# expect(-one)?: ([\w@, -]+)", text):
                for name in names.split(","):
                    rule, _, tag = name.strip().partition("@")
                    (one[tag] if kind else every).add((path.name, number, rule))
    return every, one


def name_of(example: Path) -> str:
    return f"{example.parent.name}/{example.stem}"


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_findings_are_those_that_the_example_marks(example: Path, tmp_path: Path, registry: Registry) -> None:
    target = tmp_path / example.name
    if example.is_dir():
        shutil.copytree(example, target)
    else:
        shutil.copy(example, target)
    report = engine.check([target], Config(), registry=registry)
    assert not report.errors
    found = {(Path(f.at.path).name, f.at.line, f.rule) for f in report.findings}
    every, one = expectations(example)
    allowed = every.union(*one.values())
    assert every - found == set(), "not reported"
    assert found - allowed == set(), [f.message for f in report.findings]
    for tag, lines in one.items():
        assert lines & found, f"none of the lines tagged {tag} is reported"
    counts = [(f.at.path, f.at.line, f.rule) for f in report.findings]
    assert len(counts) == len(set(counts)), "one line is reported twice by one rule"


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_says_what_it_shows(example: Path) -> None:
    first = example if example.is_file() else example / "main.py"
    lines = first.read_text(encoding="utf-8").splitlines()
    good = example.name.startswith("good_")
    assert lines[0].startswith("# right: " if good else "# fault: ")
    outcome = re.match(r"# outcome: ([\w-]+)", lines[1])
    assert outcome and outcome[1] in OUTCOMES
    assert (outcome[1] == "ok") == good or outcome[1] == "static-only"
    every, one = expectations(example)
    assert bool(every or one) != good
    for path in modules(example):
        text = path.read_text(encoding="utf-8")
        compile(text, str(path), "exec")
        assert len(text.splitlines()) < 80


@pytest.mark.parametrize("folder", sorted(RULES.glob("gl*")), ids=lambda p: p.name)
def test_a_rule_has_pairs(folder: Path) -> None:
    """Each bad example has a good twin; good ones may stand alone, as tests of silence."""
    names = {path.name for path in folder.iterdir()}
    bad = [name for name in names if name.startswith("bad_")]
    assert len(bad) >= (3 if folder.name < "gl009" else 2)
    assert all(name.replace("bad_", "good_", 1) in names for name in bad)
