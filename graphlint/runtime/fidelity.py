"""How true the emulator is: runs labelled programs and compares what they print with what their headers say a GPU does.

A labelled program has `# outcome: X` at its top and prints `OUTCOME: X`; `# expect: rule` stands on lines that must be
confirmed, `# expect-one: rule@tag` on lines of which one is enough. A folder with `main.py` is one program.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from graphlint.runtime.process import run
from graphlint.runtime.spec import Result, Spec
from graphlint.runtime.target import Target

_EXPECT = re.compile(r"#\s*expect:\s*([\w\-, ]+)")
_EXPECT_ONE = re.compile(r"#\s*expect-one:\s*([\w\-]+)@(\w+)")
#: These depend on time or memory, which an emulator has no right to judge.
UNMEASURED = frozenset({"slow", "memory"})

Key = tuple[str, object]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A labelled program: its main file, its label, the lines that must be confirmed."""

    name: str
    main: Path
    outcome: str
    wanted: tuple[tuple[str, str, int, str], ...]
    """(rule, path, line, tag)."""

    @property
    def bad(self) -> bool:
        return self.name.startswith("bad_") or "__bad" in self.name


@dataclass(slots=True)
class Score:
    """What one program did. `missing` are wanted lines that nothing confirmed, `false` what a good one was blamed
    for."""

    program: Labelled
    printed: str
    output: str
    wanted: int
    missing: list[Key]
    false: list[str]

    @property
    def same(self) -> bool:
        return self.printed == self.program.outcome


def labelled(path: Path) -> Labelled | None:
    """The program at `path` (a file, or a folder with main.py), None if it has no label."""
    main = path / "main.py" if path.is_dir() else path
    if not main.is_file():
        return None
    found = re.search(r"^# outcome:\s*([\w-]+)", main.read_text(encoding="utf-8"), re.M)
    if found is None:
        return None
    wanted = []
    for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            real = os.path.realpath(file)
            if match := _EXPECT.search(line):
                wanted += [(r.strip(), real, number, "") for r in match[1].split(",") if r.strip()]
            wanted += [(rule, real, number, tag) for rule, tag in _EXPECT_ONE.findall(line)]
    return Labelled(path.name, main, found[1], tuple(wanted))


def programs(folder: Path) -> Iterator[Labelled]:
    """The labelled programs of a folder: `bad_*`, `good_*`, `*__bad`, `*__good`, files or folders with main.py."""
    for path in sorted(folder.iterdir()):
        if re.match(r"(bad|good)_", path.name) or re.search(r"__(bad|good)(\.py)?$", path.name):
            one = labelled(path)
            if one is not None:
                yield one


def score(program: Labelled, limit: float = 120.0) -> Score:
    """Runs a program, and once more past what a capture refused."""
    with tempfile.TemporaryFile() as sink:
        spec = Spec(Target(str(program.main)), output_to=sink.fileno(), errors_to=sink.fileno())
        results: list[Result] = [run(spec, limit)]
        if results[0].refused and results[0].values and results[0].outcome not in ("crash", "hang"):
            results.append(run(replace(spec, survey=True, quiet=True), limit))
        sink.seek(0)
        output = sink.read().decode(errors="replace")
    printed = re.findall(r"^OUTCOME:\s*([\w-]+)", output, re.M)
    spots = {
        (o["rule"], os.path.realpath(path), line)
        for r in results
        for o in r.observations
        if not o["weak"]
        for path, line in ((o["path"], o["line"]), *((p, n) for p, n, _ in o["chain"][:6]))
    }
    met: dict[Key, bool] = {}
    for rule, path, line, tag in program.wanted:
        key: Key = (rule, tag or (os.path.basename(path), line))
        met[key] = met.get(key, False) or (rule, path, line) in spots
    false = (
        []
        if program.bad
        else [f"{o['line']}: {o['rule']}: {o['evidence']}" for r in results for o in r.observations if not o["weak"]]
    )
    return Score(
        program,
        printed[-1] if printed else "",
        output,
        len(met),
        [k for k, ok in met.items() if not ok] if program.bad else [],
        false,
    )


def table(scores: Iterable[Score]) -> tuple[float, float, int, list[str]]:
    """(fidelity, confirmed, false, lines that say what is off)."""
    same = compared = confirmed = wanted = false = 0
    lines: list[str] = []
    for one in scores:
        name = f"{one.program.main.parent.name}/{one.program.name}"
        if one.program.outcome not in UNMEASURED and one.program.outcome != "static-only":
            compared += 1
            same += one.same
            if not one.same:
                last = (one.output.strip().splitlines() or [""])[-1][:160]
                lines.append(f"outcome {name}: {one.program.outcome} wanted, {one.printed or 'none'} printed: {last}")
        if one.program.bad and one.program.outcome != "static-only":
            wanted += one.wanted
            confirmed += one.wanted - len(one.missing)
            lines += [f"unconfirmed {name}: {key}" for key in one.missing]
        false += len(one.false)
        lines += [f"false {name}:{text}" for text in one.false]
    return same / max(compared, 1), confirmed / max(wanted, 1), false, lines
