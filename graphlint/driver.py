"""Runs an analysis root by root, and takes from earlier analyses what still holds.

The order of the work and all decisions are those of `graphlint.interp`. Each root is run with notes of its own, judged,
and let go of; where an earlier run of it still holds, that one stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphlint.config import Config
from graphlint.engine import RegionSummary
from graphlint.finding import FileError, Finding
from graphlint.interp.analysis import Analysis, _Analyser
from graphlint.interp.effort import Way
from graphlint.interp.roots import Climber, Related, is_test
from graphlint.interp.sites import Root, Site, sites
from graphlint.lower import tree
from graphlint.noting import NotingProgram
from graphlint.parallel import Forks, Promise
from graphlint.region import Region
from graphlint.runs import (
    ALL,
    FilePlan,
    Judged,
    Known,
    Mark,
    Name,
    Plan,
    Run,
    Since,
    name_of,
    names_of,
    root_of,
    share_of,
)
from graphlint.trail import Notes, Query, Trail

#: With fewer facts than this, a life is judged sooner than a process is forked.
WORTH = 2_000


@dataclass(frozen=True, slots=True)
class Said:
    """What all runs of an analysis say together, each thing once."""

    findings: tuple[Finding, ...]
    regions: tuple[RegionSummary, ...]
    errors: tuple[FileError, ...]
    crashes: tuple[FileError, ...]
    notices: tuple[FileError, ...]


class _NotingClimber(Climber):
    """Remembers callers together with what they rested on."""

    program: NotingProgram

    def callers(self, root: Root) -> list[Root]:
        return self.program._resting(("callers", root), lambda: Climber.callers(self, root))

    def _files(self, name: str, own: Path) -> tuple[Path, ...]:
        self.hits.pop(name, None)
        return Climber._files(self, name, own)


class Driver(_Analyser):
    """One analysis. `known` is what earlier ones left that still holds; it is brought up to date.

    exact: a run that had more or less effort to spend than it would have now is not taken for one of now.
    """

    program: NotingProgram

    def __init__(
        self,
        program: NotingProgram,
        config: Config,
        judge: Callable[[Sequence[Region]], Judged],
        known: Known | None = None,
        since: Since | None = None,
        jobs: int = 1,
        *,
        exact: bool = True,
    ) -> None:
        super().__init__(program, config, config.settings)
        self.judge = judge
        self.known = known if known is not None else Known()
        self.since, self.exact = since, exact
        self.climber = _NotingClimber(program)
        self.used: dict[Name, Run] = {}
        self.fresh: set[Name] = set()
        """Roots that were run, not remembered."""
        self.forks = Forks(jobs)
        self.judging: dict[Name, Promise[Judged]] = {}
        self._asked: dict[Name, None] | None = None
        self._went_further = False
        self._site_objects: dict[str, dict[tuple[str, str], Site]] = {}
        self.more = (*config.capture_context_managers, *(w.name for w in config.capture_wrappers))
        self.files = self._capture_files()
        with program.noted() as self._device_notes:
            self._changing_device()  # asked once an analysis, and every run rests on the answer

    # ---------------------------------------------------------------------------------------- sites

    def _capture_files(self) -> tuple[str, ...]:
        """Files that hold any sign of a capture: only those that changed are looked at again."""
        words = tuple(m.rpartition(".")[2] for m in self.more)
        if self.known.captures is None or self.since is None:
            found = {str(path) for path in self.program.capture_files(words)}
        else:
            query, project = Query("captures", words, 0, ()), {str(path) for path in self.program.files}
            found = {path for path in self.known.captures if path in project and path not in self.since.files}
            found |= {path for path in self.since.files if path in project and self.since.matches(query, path)}
        self.known.captures = tuple(sorted(found))
        return self.known.captures

    def _plan(self, path: str) -> FilePlan:
        known = self.known.plans.get(path)
        if known is None:
            with self.program.noted() as notes:
                objects = self._objects(path)
            made = tuple(self._plan_site(site, notes, path) for site in objects.values())
            known = self.known.plans[path] = FilePlan(made, self._errors(notes))
        return known

    def _objects(self, path: str) -> dict[tuple[str, str], Site]:
        """The sites of a file, and those that compile with a setting of it, by file and function."""
        if path not in self._site_objects:
            only, self.program.only = self.program.only, frozenset([path])
            try:
                found = sites(self.program, self.more)
                self._site_objects[path] = {(str(site.module.path), site.function): site for site in found}
            finally:
                self.program.only = only
        return self._site_objects[path]

    def _plan_site(self, site: Site, before: Notes, file: str) -> Plan:
        with self.program.noted() as notes:
            notes.add(before)
            self.climber.passed = set()
            roots = self.climber.roots(site)
            owner, _, _ = site.function.rpartition(".")
            method = bool(owner) and isinstance(site.module.definition(owner), tree.Class)
        return Plan(
            str(site.module.path),
            site.function,
            tuple(site.lines),
            method,
            names_of(roots),
            names_of(site.callers),
            tuple(sorted(names_of(self.climber.passed))),
            notes.trail(),
            named_in="" if str(site.module.path) == file else file,
        )

    # ---------------------------------------------------------------------------------------- the analysis

    def run(self, targets: Collection[str] | None = None) -> Analysis:
        plans = [plan for path in self.files for plan in self._plan(path).sites]
        for plan in plans:
            if plan.method:
                owner, _, method = plan.function.rpartition(".")
                self.site_classes.setdefault((Path(plan.path), owner), []).append(method)
        related = Related(self.program, targets) if targets is not None else None
        wanted = [plan for plan in plans if related is None or _concerns(related, plan)]
        self.way = Way(name for plan in plans for name in plan.passed)
        asked = set(targets or ())
        for plan in sorted(wanted, key=lambda p: (p.path not in asked, is_test(Path(p.path)))):
            self._visit(plan)
        for text in self.config.capture_roots:
            self._configured(text)
        for name, promise in self.judging.items():
            self.used[name] = self.known.runs[name] = self.used[name].judged_as(promise.get())
        return self.analysis

    def _visit(self, plan: Plan) -> None:
        if plan.ran is not None and self._would_go_the_same_way(plan):
            for name in plan.ran:
                self._root(root_of(name))
            return
        site = self._objects(plan.file).get((plan.path, plan.function))
        if site is None:
            return
        self._asked, self._went_further = {}, False
        with self.program.noted() as notes:
            self._site(site)
        ran, self._asked = tuple(self._asked), None
        self._replace(plan, replace(plan, ran=ran, further=self._went_further, ran_trail=notes.trail()))

    def _replace(self, old: Plan, new: Plan) -> None:
        plan = self.known.plans[old.file]
        self.known.plans[old.file] = replace(plan, sites=tuple(new if s is old else s for s in plan.sites))

    def _would_go_the_same_way(self, plan: Plan) -> bool:
        """Whether all its roots would be run as they were then, with the same result."""
        if plan.further and self.fresh:
            return False
        left = self.left
        for name in plan.ran or ():
            if name in self.fresh:
                return False
            if name not in self.used:
                run = self._known_run(name, False, left)
                if run is None:
                    return False
                left = max(0, left - run.ticks)
        return True

    def _further(self, site: Site) -> None:
        self._went_further = True
        super()._further(site)

    # ---------------------------------------------------------------------------------------- roots

    def _root(self, root: Root, configured: bool = False) -> list[Region]:
        name = name_of(root)
        if self._asked is not None:
            self._asked[name] = None
        if root not in self.done:
            self.done[root] = []
            run = self._known_run(name, configured, self.left)
            if run is None:
                run = self.fresh_run(root, configured)
                self.fresh.add(name)
            self.used[name] = run
            self.left = max(0, self.left - run.ticks)
            self.done[root] = [mark.region(self.settings) for mark in run.marks]
        return self.done[root]

    def _known_run(self, name: Name, configured: bool, left: int) -> Run | None:
        run = self.known.runs.get(name)
        if run is None or run.configured != configured or (self.exact and not run.fits(share_of(left))):
            return None
        return run if run.way == self._way_in(run.trail.opened) else None

    def _way_in(self, opened: Collection[str]) -> tuple[Name, ...]:
        files = set(opened)
        return tuple(sorted(name for name in self.way.functions if name[0] in files))

    def fresh_run(self, root: Root, configured: bool) -> Run:
        """Follows a root; what it captured is judged at the same time as the next ones are followed."""
        left, share, errors = self.left, share_of(self.left), self.analysis.errors
        self.left, self.analysis.errors = share, {}
        with self.program.noted() as notes:
            notes.add(self._device_notes)
            regions = self._run(root, configured)
        facts = max((len(region.life) for region in regions), default=0)
        promise = self.forks.promise(lambda: self._judged(regions), Judged, worth=facts >= WORTH)
        told = {**{Path(e.path): e.message for e in self._errors(notes)}, **self.analysis.errors}
        ticks = share - self.left if self.left else ALL
        self.left, self.analysis.errors = left, errors
        name = name_of(root)
        run = Run(
            name,
            configured,
            share,
            ticks,
            self._way_in(notes.opened),
            notes.trail(),
            tuple(Mark.of(region) for region in regions),
            Judged(),
            tuple(FileError(str(path), text) for path, text in sorted(told.items())),
        )
        if promise.pid:
            self.judging[name] = promise
        else:
            run = self.known.runs[name] = run.judged_as(promise.get())
        return run

    def _judged(self, regions: Sequence[Region]) -> Judged:
        with self.program.noted() as notes:
            judged = self.judge(regions)
        return replace(judged, opened=tuple(sorted(notes.opened)))

    def _errors(self, notes: Notes) -> tuple[FileError, ...]:
        """What was said of the files that were opened."""
        told = self.program.errors
        return tuple(FileError(p, told[Path(p)]) for p in sorted(notes.opened) if Path(p) in told)

    # ---------------------------------------------------------------------------------------- what came of it

    def said(self) -> Said:
        """What the runs of this analysis and the search for sites say."""
        runs = [run.judged for run in self.used.values()]
        errors = [e for plan in self.known.plans.values() for e in plan.errors]
        errors += [e for run in self.used.values() for e in run.errors]
        told = {**{str(p): text for p, text in self.program.errors.items()}, **{e.path: e.message for e in errors}}
        return Said(
            tuple(dict.fromkeys(f for j in runs for f in j.findings)),
            tuple(r for j in runs for r in j.regions),
            tuple(FileError(path, text) for path, text in sorted(told.items())),
            tuple(dict.fromkeys(c for j in runs for c in j.crashes)),
            tuple(dict.fromkeys(n for j in runs for n in j.notices)),
        )

    def trails(self) -> list[Trail]:
        """What this analysis rests on."""
        plans = [trail for plan in self.known.plans.values() for s in plan.sites for trail in (s.trail, s.ran_trail)]
        return [*plans, *(run.trail for run in self.used.values())]


def _concerns(related: Related, plan: Plan) -> bool:
    if related.all or plan.path in related.files:
        return True
    return any(path in related.files for path, _ in (*plan.roots, *plan.callers))
