"""One project as an editor's server keeps it: configuration, rules, warm program, and what the last runs said.

Glossary:
    near   a run about the files that are open: what an edit waits for.
    early  before the first near run of a large project: the captures that stand in open files themselves.
    whole  a run about all files of the project, after the near one: findings in closed files.
    read   the text of an open file that the analysis stands on: the buffer, or what it was when it last parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphlint.baseline import BaselineError, Lines, compare
from graphlint.cache import recalled
from graphlint.config import FILE_NAMES, Config, check_rule_names, load, selected
from graphlint.config_keys import ConfigError, user_file
from graphlint.driver import Driver
from graphlint.engine import Raw, Report, deep, judged
from graphlint.finding import FileError, Finding
from graphlint.lsp.warm import Cancelled, Stamp, Warm, WarmProgram, stamp_of
from graphlint.noting import Matcher
from graphlint.region import Region
from graphlint.registry import Registry, RuleError, load_rules
from graphlint.runs import Judged, Known, Since, still_known
from graphlint.scope import Scope, find_scope, marked_root, missing_packages
from graphlint.selection import select
from graphlint.source import Source, SourceError
from graphlint.syntax import suspects
from graphlint.trail import Query, Trail, merged

#: With more files than this, the first near run takes long enough to show something before.
LARGE = 300


@dataclass(frozen=True, slots=True)
class Options:
    """What the user set in the editor. `rule_folders` holds code that is run: it counts only if `trusted`."""

    rule_folders: tuple[str, ...] = ()
    trusted: bool = False
    python: str | None = None
    debounce: float = 0.25
    whole: bool = True
    """Whether to report closed files, too."""
    push: bool = False
    """Whether to publish although the client could pull: for one that cannot be told to pull again."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run says. `findings` has an entry for each path that the run was about, also where there are none."""

    findings: Mapping[str, tuple[Finding, ...]]
    sources: Mapping[str, Source]
    """Of each file that a finding, a note or an edit stands in, the text that was analysed."""
    whole: bool
    fresh: int
    """How many roots had to be run."""


def find_project(path: Path) -> tuple[Path, bool]:
    """The folder of the project that a file or folder belongs to, and whether all of it may be walked.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    folder = path if path.is_dir() else path.parent
    config = load(folder).config
    if config.file is not None:
        return config.root, True
    root = marked_root(folder)
    return (root, True) if root is not None else (folder, path.is_dir())


class Project:
    """A project's state. One thread at a time: `run` is called by the analysis thread only."""

    def __init__(self, root: Path, deep_scope: bool, options: Options) -> None:
        self.root, self.deep_scope, self.options = root, deep_scope, options
        self.problem: str | None = None
        """Why the configuration or the rules cannot be used, in one line; the last good ones hold meanwhile."""
        self.config = Config(root=root)
        self.registry: Registry | None = None
        self._settings: dict[str, Stamp] = {}
        self._scope: Scope | None = None
        self._opened: frozenset[Path] = frozenset()
        self._warm = Warm()
        self._known: Known | None = None
        """None before the first run with this configuration."""
        self._stamps: dict[str, Stamp] = {}
        """Of all files that what is known rests on, as they were when it was last brought up to date."""
        self._listings: dict[str, object] = {}
        self._files: frozenset[str] = frozenset()
        self._parsed: dict[str, Stamp] = {}
        self._fresh = 0

    def files_changed(self) -> None:
        """Files came or went: the project is walked again before the next run."""
        self._scope = None

    # ---------------------------------------------------------------------------------------- configuration

    def _configure(self) -> None:
        """Reads the configuration if a file that it could stand in has changed."""
        names = [str(folder / name) for folder in (self.root, *self.root.parents) for name in FILE_NAMES]
        stamps = {name: stamp_of(name) for name in [*names, str(user_file())]}
        if stamps == self._settings and self.registry is not None:
            return
        self._settings = stamps
        try:
            config = load(self.root).config
            if config.file is None:
                config = replace(config, root=self.root)
            if self.options.python:
                config = replace(config, python=self.options.python)
            own = tuple(self.options.rule_folders) if self.options.trusted else ()
            config = replace(config, rule_folder=(*config.rule_folder, *own))
            registry = load_rules([config.resolve(p) for p in config.rule_folder])
            config = check_rule_names(config, registry.known)
        except (ConfigError, RuleError) as error:
            self.problem = str(error)
            if self.registry is not None:
                return
            config, registry = Config(root=self.root), load_rules()
        else:
            problem = missing_packages(config)
            self.problem = problem and f"{problem}; calls of installed packages are not followed"
        self.config, self.registry = config, registry
        self._known = None
        self._scope = None

    def _find_scope(self, opened: frozenset[Path]) -> Scope:
        if self._scope is None or opened != self._opened:
            whole = [self.config.root] if self.deep_scope else []
            texts = {path: "" for path in opened}
            scope = find_scope([*whole, *sorted(opened)], self.config, texts)
            books = {path: text for path, text in scope.overlay.items() if path not in opened}
            self._scope, self._opened = replace(scope, overlay=books), opened
        return self._scope

    # ---------------------------------------------------------------------------------------- running

    def run(self, texts: Mapping[Path, str], whole: bool, cancelled: Callable[[], bool]) -> Outcome:
        """Checks the open files, or all. `texts` are the open files of all projects, as they last parsed.

        Raises:
            Cancelled: `cancelled` said yes.
        """
        return deep(lambda: self._run(texts, whole, cancelled))

    def early(self, texts: Mapping[Path, str], cancelled: Callable[[], bool]) -> Outcome | None:
        """Checks the captures in open files, whoever else calls what they call; None if the project is not large."""
        self._configure()
        if len(self._find_scope(self._mine(texts)).files) <= LARGE:
            return None
        return deep(lambda: self._run(texts, False, cancelled, early=True))

    def _mine(self, texts: Mapping[Path, str]) -> frozenset[Path]:
        return frozenset(path for path in texts if self.owns(path))

    def _run(
        self, texts: Mapping[Path, str], whole: bool, cancelled: Callable[[], bool], *, early: bool = False
    ) -> Outcome:
        self._configure()
        assert self.registry is not None
        mine = self._mine(texts)
        scope = self._find_scope(mine)
        scope = replace(scope, overlay={**scope.overlay, **texts})
        program = WarmProgram(
            self._warm, [Path(f) for f in scope.files], scope.roots, scope.site_packages, scope.overlay, cancelled
        )
        whole = whole and self.deep_scope
        targets = scope.files if whole else tuple(sorted(str(path) for path in mine if scope.owns(str(path))))
        known, since = Known(), None
        if early:
            # Not kept: what is known of classes that capture is not all there is.
            program.only = frozenset(targets)
        else:
            known, since = self._bring_up_to_date(program, scope)
        driver = Driver(program, self.config, lambda found: self._judged(found, program), known, since, exact=False)
        try:
            driver.run(None if early else targets)
            for path in [*mine, *(self._broken(scope.files, program) if whole else ())]:
                program.module(Path(path))
        finally:
            if not early:
                self._note(program, known)
        if whole:
            # What nothing leads to any more is forgotten.
            known.runs = {name: run for name, run in known.runs.items() if name in driver.used}
        said = driver.said()
        told = {
            **{str(path): text for path, text in program.errors.items()},
            **{e.path: e.message for e in said.errors},
        }
        errors = [FileError(path, " ".join(text.split())) for path, text in sorted(told.items())]
        raw = Raw(said.findings, (), tuple(dict.fromkeys([*errors, *said.crashes])))
        self._fresh = len(driver.fresh)
        about = self._about(targets, raw, program) if whole else frozenset(targets)
        report = select(raw, replace(scope, targets=about), self.config, self.registry)
        report = self._without_known(report, scope)
        return self._outcome(report, scope, program, targets, whole)

    def _judged(self, regions: Sequence[Region], program: WarmProgram) -> Judged:
        assert self.registry is not None
        parts = []
        for region in regions:
            program.stop()
            parts.append(judged([region], self.registry.rules, program.source, program.is_project))
        return Judged(
            tuple(dict.fromkeys(f for part in parts for f in part.findings)),
            tuple(dict.fromkeys(c for part in parts for c in part.crashes)),
        )

    def _bring_up_to_date(self, program: WarmProgram, scope: Scope) -> tuple[Known, Since | None]:
        """What is known that still holds for this program, and what changed since it was last looked at."""
        now = frozenset(str(path) for path in program.files)
        if self._known is None:
            self._stamps, self._listings, self._files = {}, {}, now
            return self._start(program, scope)
        matcher = Matcher({Path(path): text for path, text in program.disk.overlay.items()})

        def matches(query: Query, path: str) -> bool:
            return path in now and matcher(query, path)

        changed = {path for path, stamp in self._stamps.items() if program.stamp(path) != stamp} | (now ^ self._files)
        folders = {path for path, listing in self._listings.items() if program.disk.listing(path) != listing}
        since = Since(changed, folders, matches)
        self._known = still_known(self._known, since)
        self._files = now
        return self._known, since

    def _start(self, program: WarmProgram, scope: Scope) -> tuple[Known, Since | None]:
        """What the command line left in its cache."""
        assert self.registry is not None
        edited = {str(path) for path, text in scope.overlay.items() if _on_disk(path) != text}
        known, since = recalled(scope, self.config, self.registry, edited - scope.notebooks.keys())
        self._known = known or Known()
        self._parsed = {path: program.stamp(path) for path, said in self._known.parsed.items() if not said}
        return self._known, since

    def _note(self, program: WarmProgram, known: Known) -> None:
        """Writes down what everything that is known rests on."""
        rests = merged(_trails(known))
        self._stamps = {path: program.stamp(path) for path in {*map(str, program.files), *rests.opened}}
        self._listings = {path: program.disk.listing(path) for path in rests.listed}

    def owns(self, path: Path) -> bool:
        """Whether an open file lies in this project's folder."""
        return self.root == path.parent or (self.deep_scope and self.root in path.parents)

    def _broken(self, files: Iterable[str], program: WarmProgram) -> list[str]:
        """Closed files that do not parse; each version of a file is looked at once."""
        loaded = {str(module.path) for module in program.loaded()}
        found = []
        for path in files:
            stamp = program.stamp(path)
            if path in loaded or isinstance(stamp, str) or self._parsed.get(path) == stamp:
                continue
            if program.cancelled():
                raise Cancelled
            if any(suspects([path])):
                found.append(path)
            else:
                self._parsed[path] = stamp
        return found

    def _about(self, targets: Iterable[str], raw: Raw, program: WarmProgram) -> frozenset[str]:
        """Of all files, those that anything can be said of: the others need not be read for suppressions."""
        about = {f.at.path for f in raw.findings} | {n.at.path for f in raw.findings for n in f.notes}
        about |= {error.path for error in raw.errors}
        for word in ("graphlint", "noqa", "NOQA"):
            about |= {str(path) for path in program.mentions(word)}
        return frozenset(about & set(targets))

    def _without_known(self, report: Report, scope: Scope) -> Report:
        """Without what the project's baseline knows."""
        if self.config.baseline is None or self.registry is None:
            return report
        path = self.config.resolve(self.config.baseline)
        ran = selected(self.config, self.registry.by_name)
        lines = Lines({str(p): text for p, text in scope.overlay.items()})
        try:
            return compare(report, path, ran, lines, report.targets).report
        except BaselineError as error:
            self.problem = str(error)
            return report

    def _outcome(
        self, report: Report, scope: Scope, program: WarmProgram, targets: Iterable[str], whole: bool
    ) -> Outcome:
        found: dict[str, list[Finding]] = {path: [] for path in targets if path not in scope.notebooks}
        sources: dict[str, Source] = {}
        for finding in report.findings:
            shown = _at_home(finding, scope)
            if shown.at.path in scope.notebooks:
                continue
            if whole or shown.at.path in found:
                found.setdefault(shown.at.path, []).append(shown)
            edits = shown.fix.edits if shown.fix else ()
            for path in {shown.at.path, *(n.at.path for n in shown.notes), *(e.path for e in edits)}:
                if path not in sources:
                    try:
                        sources[path] = program.source(Path(path))
                    except SourceError:
                        sources[path] = Source(Path(path), "")
        return Outcome({p: tuple(f) for p, f in found.items()}, sources, whole, self._fresh)


def _at_home(finding: Finding, scope: Scope) -> Finding:
    """A finding in an installed package is shown where the project's own code leads there."""
    if not scope.outside(finding.at.path):
        return finding
    from graphlint.finding import Note

    own = [note for note in finding.notes if not scope.outside(note.at.path)]
    if not own:
        return finding
    return replace(finding, at=own[-1].at, notes=(*finding.notes, Note(finding.at, "here")), fix=None)


def _on_disk(path: Path) -> str | None:
    try:
        return Source.read(path).text
    except SourceError:
        return None


def _trails(known: Known) -> Iterator[Trail]:
    yield from (run.trail for run in known.runs.values())
    for plan in known.plans.values():
        for site in plan.sites:
            yield from (site.trail, site.ran_trail)


@dataclass(slots=True)
class Parsing:
    """Tells whether texts parse, each asked once."""

    known: dict[str, bool] = field(default_factory=dict)

    def __call__(self, path: Path, text: str) -> bool:
        if text not in self.known:
            if len(self.known) > 64:
                self.known.clear()
            self.known[text] = deep(lambda: _reads(path, text))
        return self.known[text]


def _reads(path: Path, text: str) -> bool:
    """Whether this Python or LibCST can parse the text."""
    from graphlint.fix import parses
    from graphlint.program.module import Module

    if parses(text.removeprefix("\ufeff")):
        return True
    try:
        Module(path, "", Source(path, text.removeprefix("\ufeff")), True)
    except SourceError:
        return False
    return True
