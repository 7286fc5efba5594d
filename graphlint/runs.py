"""What came of the runs of an analysis, with what each rested on, in a form that can be kept.

Glossary:
    run      one root, followed and judged. Its outcome depends on what its trail asked, on the effort that it got,
             and on which functions of the files that it opened lie on the way to a capture; on nothing else.
    mark     of a region, what decides which roots are run next.
    plan     the capture sites of a file: where they are looked for from, and which roots that led to.
    effort   what of the work budget of the whole project is left when a run begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from graphlint.engine import RegionSummary
from graphlint.fact import CaptureBegin, Frame
from graphlint.finding import FileError, Finding
from graphlint.interp.analysis import ROOT_BUDGET
from graphlint.interp.harness import EXPLORE_BUDGET
from graphlint.interp.sites import Root
from graphlint.region import Reached, Region, Settings
from graphlint.source import Location, Span
from graphlint.trail import Query, Trail

Name: TypeAlias = "tuple[str, str]"
"""A root: path and qualified name."""

#: More ticks than any budget: of a run that used up what was left.
ALL = 1 << 40
_STEP = 10_000
#: With no more left than this, every root gets the least there is.
_LEAST = min(5 * (EXPLORE_BUDGET // 6), 4 * (ROOT_BUDGET // 6), 6 * 4_000)
#: A run that cost less than any call may be given would have gone the same way with any effort.
_CHEAP = 200
_NOWHERE = Location("", Span(1, 1, 1, 1))


@dataclass(frozen=True, slots=True)
class Mark:
    kind: str
    function: str
    at: Location
    applied_at: Location | None
    frames: tuple[str, ...] | None
    """Functions on the way from the root to the capture, None if its beginning is not on the tape."""
    reaches: bool
    unresolved: bool

    @classmethod
    def of(cls, region: Region) -> Mark:
        begun = next((f for f in region.life if isinstance(f, CaptureBegin) and f.begun is region), None)
        frames = tuple(frame.function for frame in begun.chain) if begun is not None else None
        return cls(
            region.kind,
            region.function,
            region.at,
            region.applied_at,
            frames,
            bool(region.reaches),
            bool(region.unresolved),
        )

    def region(self, settings: Settings) -> Region:
        """A region of which only the mark is left."""
        made = Region(self.kind, self.at, self.function, settings, applied_at=self.applied_at)
        if self.frames is not None:
            chain = tuple(Frame(_NOWHERE, name) for name in self.frames)
            made.life.append(CaptureBegin(at=self.at, function=self.function, order=0, chain=chain, begun=made))
        if self.reaches:
            made.reaches[Reached(_NOWHERE, "")] = None
        if self.unresolved:
            made.unresolved[_NOWHERE, ""] = None
        return made


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules say of a run's regions, and how reports show these."""

    findings: tuple[Finding, ...] = ()
    crashes: tuple[FileError, ...] = ()
    regions: tuple[RegionSummary, ...] = ()
    notices: tuple[FileError, ...] = ()
    opened: tuple[str, ...] = ()
    """The files that fixes were made for."""


@dataclass(frozen=True, slots=True)
class Run:
    """`share` is the effort that it was told of, `ticks` what it cost; `way` what of the way lies in the files it
    opened."""

    root: Name
    configured: bool
    share: int
    ticks: int
    way: tuple[Name, ...]
    trail: Trail
    marks: tuple[Mark, ...]
    judged: Judged
    errors: tuple[FileError, ...]

    def judged_as(self, judged: Judged) -> Run:
        opened = tuple(sorted({*self.trail.opened, *judged.opened}))
        return replace(self, judged=judged, trail=replace(self.trail, opened=opened))

    def fits(self, share: int) -> bool:
        """Whether it would have gone the same way with this share of effort."""
        return share == self.share or max(share, self.share) <= _LEAST or self.ticks < _CHEAP


def share_of(left: int) -> int:
    """What a run is told of the effort that is left: in large steps, so that an edit which makes an earlier run cost a
    little more or less does not change what the later ones may spend."""
    return left - left % _STEP


@dataclass(frozen=True, slots=True)
class Plan:
    """A capture site. `method`: it stands in a class whose objects are used as somebody would."""

    path: str
    function: str
    lines: tuple[int, ...]
    method: bool
    roots: tuple[Name, ...]
    callers: tuple[Name, ...]
    passed: tuple[Name, ...]
    trail: Trail
    ran: tuple[Name, ...] | None = None
    """The roots that its captures were looked for in, in order; None if it was never asked."""
    further: bool = False
    """Whether it went on to callers' callers, as far as those had not been run yet."""
    ran_trail: Trail = field(default_factory=Trail)
    named_in: str = ""
    """The file that names what makes it a site, if that is another one: a setting that it compiles with."""

    @property
    def file(self) -> str:
        """The file whose plan it belongs to."""
        return self.named_in or self.path


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The sites of one file, and what was said of files on the way."""

    sites: tuple[Plan, ...] = ()
    errors: tuple[FileError, ...] = ()


@dataclass(slots=True)
class Known:
    """What earlier analyses leave. `holds` says whether a trail's answers are still the same."""

    plans: dict[str, FilePlan] = field(default_factory=dict)
    runs: dict[Name, Run] = field(default_factory=dict)
    parsed: dict[str, str] = field(default_factory=dict)
    """Files that were looked at: "" for those that parse, else why not."""
    captures: tuple[str, ...] | None = None
    """The files that hold any sign of a capture; None if they were never looked for."""


@dataclass(slots=True)
class Since:
    """What changed since something was known."""

    files: Collection[str]
    folders: Collection[str]
    matches: Callable[[Query, str], bool]

    def holds(self, trail: Trail) -> bool:
        return trail.holds(self.files, self.folders, self.matches)


def name_of(root: Root) -> Name:
    return str(root.path), root.function


def root_of(name: Name) -> Root:
    return Root(Path(name[0]), name[1])


def names_of(roots: Iterable[Root]) -> tuple[Name, ...]:
    return tuple(name_of(root) for root in roots)


def still_known(known: Known, since: Since) -> Known:
    """What is left of it: plans and runs whose answers are the same, files that did not change."""
    plans = {}
    for path, plan in known.plans.items():
        if path not in since.files and all(since.holds(site.trail) for site in plan.sites):
            sites = tuple(s if since.holds(s.ran_trail) else _unasked(s) for s in plan.sites)
            plans[path] = FilePlan(sites, plan.errors)
    runs = {name: run for name, run in known.runs.items() if since.holds(run.trail)}
    parsed = {path: said for path, said in known.parsed.items() if path not in since.files}
    return Known(plans, runs, parsed, known.captures)


def _unasked(site: Plan) -> Plan:
    return replace(site, ran=None, further=False, ran_trail=Trail())
