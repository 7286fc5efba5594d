"""`graphlint check`: the linter itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphlint import __version__
from graphlint.cli import say
from graphlint.commands.options import FORMATS, common, cores, groups, read_reports
from graphlint.commands.output import emit, use_color, write_report
from graphlint.config import check_rule_names, selected
from graphlint.engine import Report
from graphlint.finding import SEVERITIES
from graphlint.registry import Registry, load_rules

if TYPE_CHECKING:
    from graphlint.baseline import Lines
    from graphlint.report.view import View

_STDIN = "stdin.py"


@click.command()
@common
@click.option("--output-format", "-f", type=click.Choice(FORMATS), default="text", help="How to print.")
@click.option(
    "--report", "reports", multiple=True, callback=read_reports, metavar="FORMAT=PATH", help="Write a file, too."
)
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
