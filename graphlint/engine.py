"""The one function behind every front door: paths and a Config in, a Report out.

Glossary:
    target    a file that the user asked about: what reports are about.
    scope     the project's files: what the analysis may read. An edited helper shows the capture that it breaks, in
              whatever file that stands, and the answer does not depend on how a caller splits its list of files.
    raw       findings of the whole scope, before suppressions and the filter by target; what the cache keeps.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from graphlint import edits
from graphlint.config import Config, check_rule_names
from graphlint.finding import FileError, Finding
from graphlint.registry import Registry, fixer, load_rules
from graphlint.source import Location, Source, Span
from graphlint.trail import Trail, merged
from graphlint.value import frozen

if TYPE_CHECKING:
    from graphlint.notebooks import Notebook
    from graphlint.region import Region
    from graphlint.rule import Rule
    from graphlint.runs import Judged, Known, Since
    from graphlint.scope import Scope

T = TypeVar("T")
_STACK = 512 * 1024 * 1024
_RECURSION = 60_000


@dataclass(frozen=True, slots=True)
class Place:
    """A line that a region summary names; `label` says what stands there."""

    path: str
    line: int
    label: str = ""


@dataclass(frozen=True, slots=True)
class RegionSummary:
    """A capture as reports show it. `warm_up` is a text: "by itself", "seen", "not seen"."""

    kind: str
    at: Place
    function: str = ""
    applied_at: Place | None = None
    warm_up: str = "not seen"
    inputs: tuple[Place, ...] = ()
    outputs: tuple[Place, ...] = ()
    reaches: tuple[Place, ...] = ()
    unresolved: tuple[Place, ...] = ()
    spent: bool = False


@dataclass(frozen=True, slots=True)
class Raw:
    """What the analysis of a scope says, the same whatever the targets are."""

    findings: tuple[Finding, ...] = ()
    regions: tuple[RegionSummary, ...] = ()
    errors: tuple[FileError, ...] = ()
    notices: tuple[FileError, ...] = ()
    """What was not seen, by no fault of a file: a work budget that ran out."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of each file with a fix, the digest of the text that the analysis read."""
    trail: Trail = field(default_factory=Trail)


@dataclass(frozen=True, slots=True)
class Report:
    """What one run says. `suppressed` findings carry their reason; `digests` guard fixes against changed files."""

    findings: tuple[Finding, ...] = ()
    regions: tuple[RegionSummary, ...] = ()
    errors: tuple[FileError, ...] = ()
    targets: frozenset[str] = frozenset()
    suppressed: tuple[Finding, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    notebooks: Mapping[str, Notebook] = field(default_factory=dict)
    """Of each notebook of the scope, its cells; places in it are counted in its joined text."""

    @property
    def files(self) -> int:
        """How many files were asked about."""
        return len(self.targets)

    def merged(self, other: Report) -> Report:
        """Both reports as one, each finding once."""
        return Report(
            tuple(sorted(dict.fromkeys(self.findings + other.findings), key=order)),
            tuple(dict.fromkeys(self.regions + other.regions)),
            tuple(dict.fromkeys(self.errors + other.errors)),
            self.targets | other.targets,
            tuple(sorted(dict.fromkeys(self.suppressed + other.suppressed), key=order)),
            {**self.digests, **other.digests},
            {**self.notebooks, **other.notebooks},
        )


def order(finding: Finding) -> tuple[str, Span, str]:
    return finding.at.path, finding.at.span, finding.code


def check(
    paths: Sequence[Path],
    config: Config,
    overlay: Mapping[Path, str] | None = None,
    *,
    registry: Registry | None = None,
    cache: bool = False,
    jobs: int = 1,
) -> Report:
    """Checks `paths` (files and folders) within their project.

    overlay: texts that stand for files on disk (unsaved buffers, standard input).
    registry: the rules; loaded from the package and `config.rule_folder` if not given.

    Raises:
        ConfigError: an unknown rule in `config`. RuleError: a rule that cannot be loaded.
    """
    from graphlint.scope import find_scope
    from graphlint.selection import select

    overlay = {Path(os.path.abspath(p)): text for p, text in (overlay or {}).items()}
    registry = registry or load_rules([config.resolve(p) for p in config.rule_folder])
    config = check_rule_names(config, registry.known)
    scope = find_scope(paths, config, overlay)
    raw: Raw | None = None
    if cache and not overlay:
        from graphlint import cache as store

        def work(wanted: Sequence[str], known: Known, since: Since | None) -> Raw:
            return deep(lambda: analyse(scope, config, registry, wanted, jobs, known, since))

        raw = store.cached(scope, config, registry, work)
    else:
        raw = deep(lambda: analyse(scope, config, registry, sorted(scope.targets), jobs))
    return select(raw, scope, config, registry)


def deep(work: Callable[[], T]) -> T:
    """Runs `work` in a thread whose stack takes expressions nested thousands deep.

    Raises: whatever `work` raises.
    """
    result: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _RECURSION))
        try:
            result.append(work())
        except BaseException as error:
            failure.append(error)
        finally:
            sys.setrecursionlimit(limit)

    old = threading.stack_size(_STACK)
    try:
        thread = threading.Thread(target=run, daemon=True, name="graphlint-analysis")
        thread.start()
    finally:
        threading.stack_size(old)
    thread.join()
    if failure:
        raise failure[0]
    return result[0]


def analyse(
    scope: Scope,
    config: Config,
    registry: Registry,
    wanted: Iterable[str],
    jobs: int = 1,
    known: Known | None = None,
    since: Since | None = None,
) -> Raw:
    """The raw findings of a scope. The files in `wanted` are also checked for whether they parse at all.

    known: what earlier analyses left that still holds; it is brought up to date. since: what changed after them.
    """
    from graphlint.driver import Driver
    from graphlint.runs import Known
    from graphlint.syntax import Search

    wanted = list(wanted)
    known = known if known is not None else Known()
    unseen = [p for p in wanted if p not in known.parsed]
    search = Search((p for p in unseen if Path(p) not in scope.overlay), jobs)
    program = scope.program()
    driver = Driver(
        program,
        config,
        lambda regions: judged(regions, registry.rules, program.source, program.is_project),
        known,
        since,
        jobs,
    )
    driver.run(wanted)
    if len(wanted) >= len(scope.files):
        known.runs = driver.used  # what nothing leads to any more is forgotten
    said = driver.said()
    loaded = {str(module.path) for module in program.loaded()}
    for path in [*search.found(loaded), *(str(p) for p in scope.overlay if str(p) in unseen)]:
        program.module(Path(path))
    known.parsed.update((path, program.errors.get(Path(path), "")) for path in unseen)
    told = {path: text for path in wanted if (text := known.parsed.get(path))}
    told.update((str(path), text) for path, text in program.errors.items())
    told.update((e.path, e.message) for e in said.errors)
    errors = [FileError(path, one_line(text)) for path, text in sorted(told.items())]
    fixable = {e.path for f in said.findings if f.fix for e in f.fix.edits}
    digests = {path: d for path in sorted(fixable) if (d := scope.digest(path)) is not None}
    return Raw(
        said.findings,
        said.regions,
        tuple(dict.fromkeys((*errors, *said.crashes))),
        said.notices,
        digests,
        merged(driver.trails()),
    )


def judged(
    regions: Sequence[Region], rules: Sequence[Rule], reader: edits.Reader, is_project: Callable[[str], bool]
) -> Judged:
    """What is kept of the regions of one run.

    What an installed package may do under a condition that is not known is left out: its users could not tell either.
    """
    from graphlint.runs import Judged

    found, crashes = judge(regions, rules, reader)
    findings = [f for f in found if is_project(f.at.path) or (f.severity == "error" and _certain(f, regions))]
    spent = "the work budget ran out in this capture, what it runs later was not seen"
    notices = [FileError(r.at.path, f"line {r.at.line}: {spent}") for r in regions if r.spent]
    return Judged(tuple(findings), tuple(crashes), tuple(summary(r) for r in regions), tuple(notices))


def _certain(finding: Finding, regions: Sequence[Region]) -> bool:
    """True if what was found was also seen where no unknown condition decides about it."""
    return any(fact.at == finding.at and not fact.maybe for region in regions for fact in region.life)


def judge(
    regions: Iterable[Region], rules: Sequence[Rule], reader: edits.Reader | None = None
) -> tuple[list[Finding], list[FileError]]:
    """What the rules say of the regions, and one line for each rule that crashed on one.

    reader: where fixes read the texts that they change; the disk if not given.
    """
    findings: dict[Finding, None] = {}
    errors: list[FileError] = []
    with edits.reading(reader or Source.read), frozen():
        for region in regions:
            for rule in rules:
                try:
                    for finding in _findings(rule, region):
                        findings[finding] = None
                except RecursionError:
                    errors.append(crashed(rule.code, rule.name, region.at, "nested too deep"))
                except Exception as error:
                    errors.append(crashed(rule.code, rule.name, region.at, f"{type(error).__name__}: {error}"))
                    if os.environ.get("GRAPHLINT_DEBUG"):
                        raise
    return list(findings), errors


def _findings(rule: Rule, region: Region) -> Iterator[Finding]:
    mend = fixer(rule.folder)
    for problem in rule.check(region):
        level = problem.severity or rule.severity
        function = problem.function or region.function
        message = one_line(problem.message)
        fix = problem.fix
        if fix is None and mend is not None:
            fix = mend(problem, region)
        yield Finding(rule.name, rule.code, level, problem.at, message, problem.notes[:5], fix, function)


def crashed(code: str, name: str, at: Location, text: str) -> FileError:
    said = f"line {at.line}: the check {code}[{name}] failed on this capture, please report it: {one_line(text)}"
    return FileError(at.path, said)


def one_line(text: str) -> str:
    return " ".join(str(text).split())[:1000]


def summary(region: Region) -> RegionSummary:
    """A region as reports show it: places and names, no values."""

    def place(at: Location, label: str = "") -> Place:
        return Place(at.path, at.line, label)

    from graphlint.fact import Enter, Unfollowed

    names = {(r.at.path, r.at.line) for r in region.reaches}
    calls = {call for _, call in region.unresolved}
    seen = any(
        (isinstance(f, Enter) and (f.defined.path, f.defined.line) in names)
        or (isinstance(f, Unfollowed) and f"{f.text}(...)" in calls)
        for f in region.before
    )
    inputs = dict.fromkeys(
        place(s.made or f.at, s.kind if s.kind != "fresh" else "tensor") for s, f in region.inputs.items()
    )
    outputs = dict.fromkeys(place(s.made or f.at) for s, f in region.outputs.items())
    return RegionSummary(
        region.kind,
        place(region.at),
        region.function,
        place(region.applied_at) if region.applied_at is not None else None,
        "by itself" if region.warm else "seen" if seen else "not seen",
        tuple(sorted(inputs, key=_by_place)),
        tuple(sorted(outputs, key=_by_place)),
        tuple(place(r.at, r.name) for r in region.reaches),
        tuple(place(at, call) for at, call in region.unresolved),
        region.spent,
    )


def _by_place(place: Place) -> tuple[str, int, str]:
    return place.path, place.line, place.label
