"""Kinds of faults in short programs, each beside a twin that is right: what is reported, and nothing else.

`kinds/*.txt` hold one group each. `=== name` begins a program; lines that begin with `-|` are in the faulty twin only,
`+|` in the right one only, all others in both; `=== good:name` has no faulty twin. `# expect: rule` marks a line that
must be reported, `# expect-one: rule@tag` lines of which one is enough. Before each stand the imports, and `warm`
where it is called. The programs are read, never run.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphlint import engine
from graphlint.config import Config
from graphlint.registry import Registry, load_rules

KINDS = Path(__file__).parent / "kinds"
HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
WARM = """
def warm(fn, *args):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            fn(*args)
    torch.cuda.current_stream().wait_stream(side)

"""
MARK = re.compile(r"# expect(-one)?: ([\w, -]+)(?:@(\w+))?")


def programs(folder: Path = KINDS) -> Iterator[tuple[str, str]]:
    """(name, text) of every program, faulty and right twins apart."""
    for path in sorted(folder.glob("*.txt")):
        for part in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
            name, _, body = part.partition("\n")
            for kind, own, other in (("bad", "-|", "+|"), ("good", "+|", "-|")):
                if name.startswith("good:") and kind == "bad":
                    continue
                lines = [line.removeprefix(own) for line in body.splitlines() if not line.startswith(other)]
                text = HEAD + (WARM if "warm(" in body else "") + "\n".join(lines) + "\n"
                yield f"{path.stem}/{name.removeprefix('good:')}-{kind}", text


PROGRAMS = list(programs())


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_rules([])


@pytest.mark.parametrize(("name", "text"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_reported_lines_are_the_marked_ones(name: str, text: str, tmp_path: Path, registry: Registry) -> None:
    path = tmp_path / "program.py"
    path.write_text(text, encoding="utf-8")
    report = engine.check([path], Config(), registry=registry)
    assert not report.errors
    found = {(f.at.line, f.rule) for f in report.findings}
    every: set[tuple[int, str]] = set()
    one: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for number, line in enumerate(text.splitlines(), 1):
        for either, rules, tag in MARK.findall(line):
            for rule in rules.split(","):
                (one[tag] if either else every).add((number, rule.strip()))
    alternatives = {place for places in one.values() for place in places}
    traced = {(n.at.line, f.rule) for f in report.findings for n in f.notes}
    assert every <= found
    assert all(places & (found | traced) for places in one.values())
    handed = {(f.at.line, f.rule) for f in report.findings if any((n.at.line, f.rule) in alternatives for n in f.notes)}
    assert found - every - alternatives - handed == set()


def test_faulty_programs_mark_a_line() -> None:
    unmarked = [name for name, text in PROGRAMS if name.endswith("-bad") and not MARK.search(text)]
    assert unmarked == []
