"""`graphlint check`: the linter itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphlint import __version__
from graphlint.cli import ClosedPipe, say
from graphlint.config import Config, ConfigError, check_rule_names, load, read_version, selected
from graphlint.engine import Report
from graphlint.finding import SEVERITIES
from graphlint.registry import Registry, load_rules

if TYPE_CHECKING:
    from graphlint.baseline import Lines
    from graphlint.report.view import View

FORMATS = ("text", "concise", "json", "jsonl", "sarif", "github", "gitlab", "junit", "rdjson")
_STDIN = "stdin.py"


@dataclass(slots=True)
class Group:
    """Paths that one configuration holds for."""

    config: Config
    paths: list[Path] = field(default_factory=list)


def _names(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    return tuple(part.strip() for text in value for part in text.split(",") if part.strip()) or None


def _version(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    return None if value is None else read_version("--torch-version", value)


def _reports(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in value:
        name, _, path = text.partition("=")
        if name not in FORMATS or not path:
            raise click.BadParameter(f"`{text}` is not FORMAT=PATH with a format of {', '.join(FORMATS)}")
        found.append((name, path))
    return found


_OPTIONS: list[Callable[[Callable[..., Any]], Callable[..., Any]]] = [
    click.argument("paths", nargs=-1),
    click.option(
        "--select", multiple=True, callback=_names, metavar="RULES", help="Only these rules (names or codes)."
    ),
    click.option("--ignore", multiple=True, callback=_names, metavar="RULES", help="Not these rules."),
    click.option("--extend-select", multiple=True, callback=_names, metavar="RULES", help="These rules, too."),
    click.option("--per-file-ignores", multiple=True, metavar="GLOB:RULES", help="Not these rules in these files."),
    click.option(
        "--exclude", multiple=True, callback=_names, metavar="GLOBS", help="Leave out, instead of the default."
    ),
    click.option("--extend-exclude", multiple=True, callback=_names, metavar="GLOBS", help="Leave out, too."),
    click.option("--force-exclude", is_flag=True, default=None, help="Leave out excluded files that are named, too."),
    click.option("--respect-gitignore/--no-respect-gitignore", default=None, help="Whether to skip git-ignored files."),
    click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="A configuration file or value."),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files."),
    click.option("--torch-version", callback=_version, metavar="X.Y", help="Report what fails on this version."),
    click.option("--python", metavar="PATH", help="The interpreter or environment whose packages are read."),
    click.option("--rule-folder", multiple=True, metavar="FOLDER", help="Rules of your own; their code is run."),
    click.option("--stdin-filename", metavar="NAME", help="The name of what `-` reads."),
    click.option("--cache/--no-cache", default=True, help="Whether to use .graphlint_cache."),
    click.option("--jobs", "-j", type=click.IntRange(0), default=0, help="Processes; 0 is one for each core."),
]


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that checks files."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@common
@click.option("--output-format", "-f", type=click.Choice(FORMATS), default="text", help="How to print.")
@click.option("--report", "reports", multiple=True, callback=_reports, metavar="FORMAT=PATH", help="Write a file, too.")
@click.option("--show-regions", is_flag=True, help="Print each capture and what it reaches.")
@click.option("--fail-on", type=click.Choice(["error", "warning"]), default="warning", help="What makes exit status 1.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever was found.")
@click.option("--fix", "fix_", is_flag=True, help="Write the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix or --diff: those that need a look, too.")
@click.option("--diff", "diff_", is_flag=True, help="Print what --fix would change, write nothing.")
@click.option("--baseline", metavar="FILE", help="Report only what this file does not know.")
@click.option("--no-baseline", is_flag=True, help="Report all, whatever the configuration says.")
@click.option("--statistics", is_flag=True, help="Print how often each rule reports.")
@click.option("--show-files", is_flag=True, help="Print the files that would be checked, and stop.")
@click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="When to use colour.")
@click.option("--confirm", is_flag=True, help="Run the scripts, too, and say which findings are real (extra `trace`).")
@click.option("--watch", is_flag=True, help="Check again whenever a file changes (extra `watch`).")
@click.option("--quiet", "-q", is_flag=True, help="Findings only.")
@click.option("--verbose", "-v", is_flag=True, help="Say what is read.")
def check(**options: Any) -> int:
    """Report what breaks under a CUDA graph in PATHS (files, folders, or - for standard input)."""
    if options["watch"]:
        from graphlint.commands.watch import watch

        return watch(lambda: Run(options).once(), options["paths"])
    return Run(options).once()


class Run:
    """One run of `check`: the options, and what follows from them."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options
        self.overlay: dict[Path, str] = {}
        self.shown: dict[str, str] = {}
        self.paths = self._paths()
        self.groups = groups(self.paths, options)
        folders = dict.fromkeys(g.config.resolve(p) for g in self.groups for p in g.config.rule_folder)
        self.registry: Registry = load_rules(list(folders))

    def _paths(self) -> list[Path]:
        given = list(self.options["paths"]) or ["."]
        found = []
        for text in given:
            if text == "-":
                found.append(self._stdin())
                continue
            path = Path(os.path.abspath(text))
            if not text or not os.path.lexists(path):
                raise click.UsageError(f"no such file or folder: {text}")
            found.append(path)
        return list(dict.fromkeys(found))

    def _stdin(self) -> Path:
        from graphlint.source import Source, SourceError

        name = self.options["stdin_filename"] or _STDIN
        path = Path(os.path.abspath(name))
        if not self.options["stdin_filename"]:
            self.shown[str(path)] = "-"
        try:
            self.overlay[path] = Source.from_bytes(path, sys.stdin.buffer.read()).text
        except SourceError as error:
            raise click.UsageError(f"standard input: {error}") from None
        return path

    def once(self) -> int:
        """Checks, fixes and reports once; the exit status."""
        options = self.options
        if options["show_files"]:
            return self._show_files()
        report = self._confirmed() if options.get("confirm") else self.analyse()
        fixed = 0
        if options["fix_"] or options["diff_"]:
            from graphlint.commands.fixing import diff_text, fix_all

            if options["diff_"]:
                text, count = diff_text(report, self)
                emit(text)
                if not options["quiet"]:
                    say(f"{count} would be fixed" if count else "nothing to fix")
                return 0 if options["exit_zero"] or not count else 1
            report, fixed, fixed_stdin = fix_all(report, self)
            if fixed_stdin is not None:
                emit(fixed_stdin)
                return self.status(report)
        report, known = self._baselined(report)
        self.show(report, fixed, known)
        return self.status(report)

    def _confirmed(self) -> Report:
        """The findings of the scripts that were named, each with what a run of it showed."""
        from graphlint.runtime.session import confirm

        scripts = [p for p in self.paths if p.is_file()]
        if not scripts:
            raise click.UsageError("--confirm runs scripts: name the files")
        try:
            return confirm(scripts)
        except ModuleNotFoundError:
            raise click.UsageError("--confirm runs code: install torch-graphlint where your torch is") from None

    def analyse(self, overlay: Mapping[Path, str] | None = None) -> Report:
        """The report of all groups."""
        from graphlint.engine import check as engine_check

        overlay = self.overlay if overlay is None else overlay
        result = Report()
        for group in self.groups:
            if self.options["verbose"]:
                say(f"configuration: {group.config.file or 'none'}; project: {group.config.root}")
            found = engine_check(
                group.paths,
                group.config,
                overlay,
                registry=self.registry,
                cache=self.options["cache"],
                jobs=self.options["jobs"] or cores(),
            )
            result = found if len(self.groups) == 1 else result.merged(found)
        if not result.files and not self.options["quiet"]:
            say("warning: no Python files in " + ", ".join(self.options["paths"] or ["."]))
        return result

    def _baselined(self, report: Report) -> tuple[Report, int]:
        configured = next((g.config for g in self.groups if g.config.baseline), None)
        if self.options["no_baseline"]:
            return report, 0
        if self.options["baseline"]:
            path = Path(self.options["baseline"])
        elif configured is not None and configured.baseline is not None:
            path = configured.resolve(configured.baseline)
        else:
            return report, 0
        from graphlint.baseline import compare
        from graphlint.report.view import plural

        compared = compare(report, path, self.ran(), self.lines(report), report.targets)
        if compared.stale and not self.options["quiet"]:
            count = plural(len(compared.stale), "entry").replace("entrys", "entries")
            say(
                f"warning: {count} of the baseline no longer found; `graphlint baseline --prune` removes what is stale:"
            )
            for entry in compared.stale[:10]:
                say(f"  {entry.path}: {entry.rule}: {entry.line}")
        return compared.report, compared.known

    def ran(self) -> set[str]:
        """Names of the rules that run in any group."""
        names: set[str] = set()
        for group in self.groups:
            names |= selected(check_rule_names(group.config, self.registry.known), self.registry.by_name)
        return names

    def lines(self, report: Report) -> Lines:
        """Source lines as they were analysed."""
        from graphlint.baseline import Lines

        texts = {str(path): text for path, text in self.overlay.items()}
        return Lines({**texts, **{path: book.joined for path, book in report.notebooks.items()}})

    def view(self, *, color: bool = False) -> View:
        from graphlint.report.view import View

        return View(
            cwd=os.getcwd(),
            version=__version__,
            rules=self.registry.by_name,
            color=color,
            show_regions=self.options.get("show_regions", False),
            statistics=self.options.get("statistics", False),
            quiet=self.options.get("quiet", False),
            overlay=self.overlay,
            names=self.shown,
            root=str(self.groups[0].config.root) if self.groups else os.getcwd(),
        )

    def show(self, report: Report, fixed: int, known: int) -> None:
        from graphlint.report import render

        if report.notebooks:
            report = self._in_cells(report)

        for name, path in self.options["reports"]:
            view = self.view()
            view.fixed, view.baselined = fixed, known
            write_report(path, render(name, report, view))
        view = self.view(color=use_color(self.options["color"]))
        view.fixed, view.baselined = fixed, known
        emit(render(self.options["output_format"], report, view))
        if self.options["output_format"] not in ("text", "concise") and not self.options["quiet"]:
            for error in report.errors:
                say(f"{view.path(error.path)}: {error.message}")

    def _in_cells(self, report: Report) -> Report:
        """The report with places in notebooks counted in their cells."""
        from dataclasses import replace

        from graphlint.notebooks import texts, to_cells

        books = dict(report.notebooks)
        self.overlay |= {Path(path): text for path, text in texts(books).items()}
        return replace(
            report,
            findings=tuple(to_cells(f, books) for f in report.findings),
            suppressed=tuple(to_cells(f, books) for f in report.suppressed),
        )

    def status(self, report: Report) -> int:
        """1 if a finding is at least as severe as --fail-on; notes never fail."""
        if self.options["exit_zero"]:
            return 0
        limit = SEVERITIES.index(self.options["fail_on"])
        return int(any(SEVERITIES.index(f.severity) <= limit for f in report.findings))

    def _show_files(self) -> int:
        from graphlint.scope import find_scope

        view = self.view()
        for group in self.groups:
            emit("".join(f"{view.path(t)}\n" for t in sorted(find_scope(group.paths, group.config, {}).targets)))
        return 0


def groups(paths: Sequence[Path], options: Mapping[str, Any]) -> list[Group]:
    """Paths by the configuration that holds for them.

    Raises:
        ConfigError: a configuration cannot be used.
    """
    from graphlint.scope import marked_root, missing_packages

    files = [text for text in options["configs"] if "=" not in text or os.path.exists(text)]
    pairs = [text for text in options["configs"] if text not in files]
    if len(files) > 1:
        raise ConfigError("more than one configuration file was given")
    overrides = _overrides(options)
    found: dict[Path | None, Group] = {}
    seen: dict[Path, Path | None] = {}
    for path in paths:
        start = path if path.is_dir() else path.parent
        if files or options["isolated"]:
            start = Path.cwd()
        loaded = load(
            start,
            file=Path(os.path.abspath(files[0])) if files else None,
            isolated=options["isolated"],
            overrides=overrides,
            pairs=pairs,
            seen=seen,
        )
        config = loaded.config
        if config.file not in found:
            if config.file is None:
                from dataclasses import replace

                config = replace(config, root=marked_root(start) or Path.cwd())
            if (problem := missing_packages(config)) is not None:
                if overrides["python"]:
                    raise ConfigError(problem)
                say(f"warning: {problem}; calls of installed packages are not followed")
            found[config.file] = Group(config)
        found[config.file].paths.append(path)
    return list(found.values())


def cores() -> int:
    """How many processes this one may keep busy; more than eight gain nothing."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        count = os.cpu_count() or 1
    return min(count, 8)


def _overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    names = ("select", "ignore", "extend_select", "exclude", "extend_exclude", "force_exclude", "respect_gitignore")
    values = {name: options[name] for name in names}
    values["torch_version"] = options["torch_version"]
    values["python"] = os.path.abspath(options["python"]) if options["python"] else None
    if options["per_file_ignores"]:
        pairs = []
        for text in options["per_file_ignores"]:
            glob, colon, rules = text.rpartition(":")
            if not colon:
                raise ConfigError(f"--per-file-ignores: `{text}` is not GLOB:RULES")
            pairs.append((glob, tuple(r.strip() for r in rules.split(",") if r.strip())))
        values["per_file_ignores"] = tuple(pairs)
    if options["rule_folder"]:
        values["rule_folder"] = tuple(os.path.abspath(p) for p in options["rule_folder"])
    return values


def use_color(choice: str) -> bool:
    """Whether standard output gets colour: the option, then NO_COLOR, FORCE_COLOR, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def emit(text: str) -> None:
    """Writes to standard output, whatever its encoding can hold.

    Raises:
        ClosedPipe: the reader went away. click.ClickException: it cannot be written.
    """
    stream = sys.stdout
    if not text or stream is None:  # closed by who started us
        return
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding or "ascii"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        raise ClosedPipe from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer must not fail again
        raise click.ClickException(f"standard output cannot be written: {error.strerror or error}") from None


def write_report(path: str, text: str) -> None:
    """Writes a report file, its folder included.

    Raises:
        click.UsageError: it cannot be written.
    """
    try:
        if path == "-":
            emit(text)
            return
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        raise click.UsageError(f"{path}: cannot be written: {error.strerror or error}") from None
