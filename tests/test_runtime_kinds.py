"""Short programs that are run emulated, each beside a twin that is right: what `graphlint trace` confirms, and nothing
else. `traced/*.txt` are written as `kinds/*.txt` are (test_kinds.py says how)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from graphlint.runtime import worker  # noqa: E402, F401  (loaded before the forks)
from graphlint.runtime.session import trace  # noqa: E402
from graphlint.runtime.spec import Spec  # noqa: E402
from graphlint.runtime.target import Target  # noqa: E402
from tests.test_kinds import programs  # noqa: E402

PROGRAMS = list(programs(Path(__file__).parent / "traced"))
MARK = re.compile(r"# expect: ([\w, -]+)")


@pytest.mark.parametrize(("name", "text"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_confirmed_lines_are_the_marked_ones(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    found = trace(Spec(Target(str(path)), quiet=True), 120.0)
    assert found.first.outcome == "ok" or "-bad" in name, found.first.detail
    wanted = {
        (number, rule.strip())
        for number, line in enumerate(text.splitlines(), 1)
        for rules in MARK.findall(line)
        for rule in rules.split(",")
    }
    assert {(f.at.line, f.rule) for f in found.confirmed} == wanted
