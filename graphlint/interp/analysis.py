"""From a program to its Regions: roots are run one by one, each with a fresh machine and a budget of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from graphlint.config import Config
from graphlint.fact import CaptureBegin
from graphlint.interp.effort import Way
from graphlint.interp.harness import EXPLORE_BUDGET, Run
from graphlint.interp.machine import Machine
from graphlint.interp.names import Names
from graphlint.interp.objects import BudgetSpent
from graphlint.interp.roots import MAX_CALLERS, Climber, Related, is_script, is_test
from graphlint.interp.sites import Root, Site, sites
from graphlint.lower import tree
from graphlint.program.program import Program
from graphlint.region import Region, Settings
from graphlint.source import SourceError
from graphlint.value import Device

ROOT_BUDGET = 40_000
#: Beyond so many ticks in all, roots are kept short.
PROJECT_BUDGET = 150_000
HARNESS_BUDGET = 24_000
#: After so many roots from which a site was not captured, functions that lead to it by name are not tried.
MAX_VAIN = 2
#: Stands between an analysis and the run of a root: it may answer with the regions of an earlier, equal run.
Memo: TypeAlias = "Callable[[Root, Callable[[], list[Region]]], list[Region]]"


@dataclass(slots=True)
class Analysis:
    """Regions of every root, in the order they were found; errors are one line for each file."""

    regions: list[Region] = field(default_factory=list)
    errors: dict[Path, str] = field(default_factory=dict)


def analyse(
    program: Program,
    config: Config,
    settings: Settings,
    targets: Collection[str] | None = None,
    memo: Memo | None = None,
) -> Analysis:
    """Finds every capture of the project's files and what it runs.

    targets: absolute paths of the files that are asked about; captures that cannot concern them are left out.
    memo: keeps regions of roots between analyses; a root's regions depend on the program and the configuration only.
    """
    return _Analyser(program, config, settings, memo).run(targets)


class _Analyser:
    def __init__(self, program: Program, config: Config, settings: Settings, memo: Memo | None = None) -> None:
        self.program, self.config, self.settings, self.memo = program, config, settings, memo
        self.analysis = Analysis()
        self.climber = Climber(program)
        self.done: dict[Root, list[Region]] = {}
        self.left = PROJECT_BUDGET
        self.site_classes: dict[tuple[Path, str], list[str]] = {}
        self.way = Way()
        self._changing: set[Path] | None = None

    def run(self, targets: Collection[str] | None = None) -> Analysis:
        more = (*self.config.capture_context_managers, *(w.name for w in self.config.capture_wrappers))
        found = list(sites(self.program, more))
        for site in found:
            owner, _, method = site.function.rpartition(".")
            if owner and isinstance(site.module.definition(owner), tree.Class):
                self.site_classes.setdefault((site.module.path, owner), []).append(method)
        related = Related(self.program, targets) if targets is not None else None
        wanted = [s for s in found if related is None or related.concerns(s, self.climber.roots(s))]
        for site in wanted:
            self.climber.roots(site)
        self.way = Way((str(r.path), r.function) for r in self.climber.passed)
        # What was asked about, and what is not a test, comes first: the work that a project may cost is spent on it.
        asked = set(targets or ())
        for site in sorted(wanted, key=lambda s: (str(s.module.path) not in asked, is_test(s.module.path))):
            self._site(site)
        for root in self.config.capture_roots:
            self._configured(root)
        self.analysis.errors |= self.program.errors
        return self.analysis

    def _site(self, site: Site) -> None:
        roots = self.climber.roots(site)
        seen: list[Region] = []
        vain = 0
        for root in roots[:-1]:
            if root.function and vain >= MAX_VAIN and not seen:
                break
            found = [r for r in self._root(root) if _covers(r, site)]
            vain += not found
            seen += found
        # A direct caller that no root led through is a root of its own: each application is a capture of its own.
        for caller in site.callers[:MAX_CALLERS]:
            if caller.function and not any(_leads_through(r, caller, self.program) for r in seen):
                seen += [r for r in self._root(caller) if _covers(r, site)]
        if not seen:
            seen = [r for r in self._root(roots[-1]) if _covers(r, site)]
        if seen and not any(r.reaches for r in seen) and any(r.unresolved for r in seen):
            self._further(site)

    def _further(self, site: Site) -> None:
        """What is captured came in as an argument that nobody on the way filled in: the callers' callers may."""
        tried = 0
        for caller in site.callers:
            # A module's own code has no callers.
            for upper in self.climber.callers(caller) if caller.function else ():
                if tried < MAX_CALLERS and upper.function and upper not in self.done:
                    tried += 1
                    if any(r.reaches for r in self._root(upper) if _covers(r, site)):
                        return

    def _root(self, root: Root, configured: bool = False) -> list[Region]:
        if root in self.done:
            return self.done[root]
        self.done[root] = []
        if self.memo is None:
            regions = self._run(root, configured)
        else:
            regions = self.memo(root, lambda: self._run(root, configured))
        self.done[root] = regions
        self.analysis.regions += regions
        return regions

    def _run(self, root: Root, configured: bool) -> list[Region]:
        module = self.program.module(root.path)
        if module is None:
            return []
        names = Names(self.program, self.config, self._default_device(root))
        # A project with many captures spends less on each: the first roots may take all they need, later ones share.
        # A script says all of what it does, so it may be explored further than a function whose callers are unknown.
        most = EXPLORE_BUDGET if root.function else 3 * EXPLORE_BUDGET
        explore = min(most, max(EXPLORE_BUDGET // 6, self.left // 5))
        machine = Machine(names, self.settings, explore, min(ROOT_BUDGET, max(ROOT_BUDGET // 6, self.left // 4)))
        machine.path = str(root.path)
        if not configured:
            machine.way = self.way
        try:
            Run(machine, module, self.site_classes, min(HARNESS_BUDGET, max(4_000, self.left // 6))).start(
                root.function, configured
            )
        except BudgetSpent:
            pass
        except SourceError as error:
            self.analysis.errors.setdefault(root.path, str(error))
        except RecursionError:
            self.analysis.errors.setdefault(root.path, "nested too deeply to be followed")
        self.left = max(0, self.left - machine.ticks)
        return _few(machine.regions)

    def _default_device(self, root: Root) -> Device:
        if self.config.assume_device in ("cuda", "cpu"):
            return "cuda" if self.config.assume_device == "cuda" else "cpu"
        changing = self._changing_device()
        # What another script or test sets for itself is not set in this one.
        apart = bool(changing) and self._runs_alone(root.path)
        return "?" if any(p == root.path or not (apart and self._runs_alone(p)) for p in changing) else "cpu"

    def _changing_device(self) -> set[Path]:
        """The files that name what changes the default device."""
        if self._changing is None:
            words = ("set_default_device", "set_default_tensor_type")
            self._changing = {path for word in words for path in self.program.mentions(word)}
        return self._changing

    def _runs_alone(self, path: Path) -> bool:
        return is_test(path) or is_script(self.program.source(path).text)

    def _configured(self, text: str) -> None:
        """A root that the user names: `package.module.function` or `package.module:Class.method`."""
        dotted, _, inside = text.partition(":")
        parts = dotted.split(".")
        candidates = (
            [(dotted, inside)]
            if inside
            else [(".".join(parts[:i]), ".".join(parts[i:])) for i in range(len(parts) - 1, 0, -1)]
        )
        for name, function in candidates:
            module = self.program.find(name)
            if module is not None and module.definition(function) is not None:
                self._root(Root(module.path, function), configured=True)
                return


def _few(regions: list[Region]) -> list[Region]:
    """Loops capture the same place again and again: three of each tell all that there is."""
    seen: dict[object, int] = {}
    kept: list[Region] = []
    for region in regions:
        key = (region.kind, region.at, region.applied_at)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= 3:
            kept.append(region)
    return kept


def _covers(region: Region, site: Site) -> bool:
    """True if `region` begins at (or was made at) one of the site's lines."""
    path = str(site.module.path)
    places = [p for p in (region.at, region.applied_at) if p is not None]
    return any(p.path == path and any(abs(p.line - n) <= 1 for n in site.lines) for p in places)


def _leads_through(region: Region, caller: Root, program: Program) -> bool:
    """True if the way to `region` went through `caller`, or `caller` made the object that captured."""
    begun = next((f for f in region.life if isinstance(f, CaptureBegin) and f.begun is region), None)
    if begun is not None and any(frame.function == caller.function for frame in begun.chain):
        return True
    if region.applied_at is None or region.applied_at.path != str(caller.path):
        return False
    module = program.module(caller.path)
    definition = module.definition(caller.function) if module is not None else None
    return definition is not None and definition.lines[0] <= region.applied_at.line <= definition.lines[1]
