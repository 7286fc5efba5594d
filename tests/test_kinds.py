"""Kinds of faults in short programs, each beside a twin that is right: what is reported, and nothing else.

`kinds/*.txt` hold one group each. `=== name` begins a program; lines that begin with `-|` are in the faulty twin only,
`+|` in the right one only, all others in both; `=== good:name` has no faulty twin. `# expect: rule` marks a line that
must be reported, `# expect-one: rule@tag` lines of which one is enough. Before each stand the imports, and `warm`
where it is called. `--- path` begins another file beside the program. The programs are read, never run.
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
from graphlint.source import Location

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


def files(text: str) -> dict[str, list[str]]:
    """The lines of each file of a program."""
    found: dict[str, list[str]] = {}
    name = "program.py"
    for line in text.splitlines():
        if line.startswith("--- "):
            name = line.removeprefix("--- ")
        else:
            found.setdefault(name, []).append(line)
    return found


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_rules([])


@pytest.mark.parametrize(("name", "text"), PROGRAMS, ids=[name for name, _ in PROGRAMS])
def test_reported_lines_are_the_marked_ones(name: str, text: str, tmp_path: Path, registry: Registry) -> None:
    every: set[tuple[str, int, str]] = set()
    one: dict[str, set[tuple[str, int, str]]] = defaultdict(set)
    for name_of_file, lines in files(text).items():
        path = tmp_path / name_of_file
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for number, line in enumerate(lines, 1):
            for either, rules, tag in MARK.findall(line):
                for rule in rules.split(","):
                    (one[tag] if either else every).add((path.name, number, rule.strip()))
    report = engine.check([tmp_path], Config(), registry=registry)
    assert not report.errors

    def place(at: Location, rule: str) -> tuple[str, int, str]:
        return Path(at.path).name, at.line, rule

    found = {place(f.at, f.rule) for f in report.findings}
    alternatives = {one_of for places in one.values() for one_of in places}
    traced = {place(n.at, f.rule) for f in report.findings for n in f.notes}
    assert every <= found
    assert all(places & (found | traced) for places in one.values())
    handed = {place(f.at, f.rule) for f in report.findings if any(place(n.at, f.rule) in alternatives for n in f.notes)}
    assert found - every - alternatives - handed == set()


def test_faulty_programs_mark_a_line() -> None:
    unmarked = [name for name, text in PROGRAMS if name.endswith("-bad") and not MARK.search(text)]
    assert unmarked == []
