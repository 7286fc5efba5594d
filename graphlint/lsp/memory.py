"""Regions and findings of earlier runs, for as long as nothing that led to them has changed.

A root's run asks the program for modules, names and text searches. The trail of these questions is kept with what the
rules said of the regions; while the program answers them all as before, the root is not run again. So an edit costs
the roots that it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphlint.engine import judge
from graphlint.fact import CaptureBegin
from graphlint.finding import FileError, Finding
from graphlint.interp.analysis import Analysis
from graphlint.interp.roots import Root
from graphlint.program.warm import Cancelled, Trail, WarmProgram
from graphlint.region import Region
from graphlint.rule import Rule


@dataclass(slots=True)
class _Run:
    """One root: what it asked, its regions (only what tells where they stand), and what came of them."""

    trail: Trail
    regions: list[Region]
    findings: list[Finding]
    crashes: list[FileError]
    errors: dict[Path, str]


class Memory:
    """Runs by root. One for each configuration and set of rules."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = rules
        self._runs: dict[Root, _Run] = {}
        self._used: dict[Root, _Run] = {}
        self._defaults: tuple[bool, bool] | None = None
        self.fresh = 0

    def start(self, program: WarmProgram) -> Callable[[Root, Callable[[], list[Region]]], list[Region]]:
        """The memo of one analysis of `program`."""
        self._used = {}
        self.fresh = 0
        # Asked once an analysis, whatever the root: the trail of the first root alone would not hold for the others.
        defaults = bool(program.mentions("set_default_device")), bool(program.mentions("set_default_tensor_type"))
        if defaults != self._defaults:
            self._runs.clear()
            self._defaults = defaults

        def memo(root: Root, work: Callable[[], list[Region]]) -> list[Region]:
            run = self._runs.get(root)
            if run is None or not program.holds(run.trail):
                run = self._run(program, work)
                self._runs[root] = run
            else:
                for path, text in run.errors.items():
                    program.errors.setdefault(path, text)
            self._used[root] = run
            return run.regions

        return memo

    def _run(self, program: WarmProgram, work: Callable[[], list[Region]]) -> _Run:
        known = set(program.errors)
        self.fresh += 1
        with program.trail() as trail:
            regions = work()
        findings: dict[Finding, None] = {}
        crashes: list[FileError] = []
        for region in regions:
            if program.cancelled():
                raise Cancelled
            found, failed = judge([region], self.rules, program.source)
            findings.update(dict.fromkeys(found))
            crashes += failed
        for region in regions:
            _slim(region)
        errors = {path: text for path, text in program.errors.items() if path not in known}
        return _Run(trail, regions, list(findings), crashes, errors)

    def finish(self, analysis: Analysis, whole: bool) -> tuple[list[Finding], list[FileError]]:
        """What the rules say of everything that this analysis reached, each finding once.

        whole: it was an analysis of all files, so that runs it did not ask for are forgotten.
        """
        findings: dict[Finding, None] = {}
        crashes: dict[FileError, None] = {}
        for root, run in self._used.items():
            if (told := analysis.errors.get(root.path)) is not None:
                run.errors.setdefault(root.path, told)
            findings.update(dict.fromkeys(run.findings))
            crashes.update(dict.fromkeys(run.crashes))
        if whole:
            self._runs = dict(self._used)
        return list(findings), list(crashes)


def _slim(region: Region) -> None:
    """Lets go of the facts: an analysis asks of a region that is known only where it begins, how it was reached,
    and whether it reached anything."""
    region.life = [f for f in region.life if isinstance(f, CaptureBegin) and f.begun is region]
    region.inputs, region.outputs, region.writes = {}, {}, {}
    region.options = {}
