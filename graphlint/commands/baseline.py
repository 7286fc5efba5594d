"""`graphlint baseline`: write the findings of today down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from graphlint import baseline as store
from graphlint.cli import say
from graphlint.commands.check import Run
from graphlint.commands.options import common
from graphlint.report.view import plural


@click.command()
@common
@click.option("--output", "-o", metavar="FILE", help=f"Where to write it [{store.DEFAULT}].")
@click.option("--prune", is_flag=True, help="Only remove what is no longer found; add nothing.")
def baseline(output: str | None, prune: bool, **options: Any) -> int:
    """Write the findings in PATHS down, so that `check --baseline` reports only new ones."""
    run = Run({**options, "verbose": False, "quiet": True})
    configured = next((g.config for g in run.groups if g.config.baseline), None)
    if output is not None:
        path = Path(output)
    elif configured is not None and configured.baseline is not None:
        path = configured.resolve(configured.baseline)
    else:
        path = Path(store.DEFAULT)
    report = run.analyse()
    if prune:
        compared = store.compare(report, path, run.ran(), run.lines(report), report.targets)
        store.write(path, store.read(path) - set(compared.stale))
        say(f"{path}: {plural(len(compared.stale), 'entry')} removed".replace("entrys", "entries"))
        return 0
    root = str(path.resolve().parent)
    entries = set(store.fingerprints(report.findings, root, run.lines(report)))
    if path.exists():
        # Files and rules that were not looked at keep what is known of them.
        compared = store.compare(report, path, run.ran(), run.lines(report), report.targets)
        entries |= store.read(path) - set(compared.stale)
    store.write(path, entries)
    say(f"{path}: {plural(len(report.findings), 'finding')} written down")
    return 0
