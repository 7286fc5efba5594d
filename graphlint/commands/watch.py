"""`graphlint check --watch`: check again whenever a file changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from graphlint.cli import say
from graphlint.config import FILE_NAMES
from graphlint.config_keys import ConfigError

_SUFFIXES = (".py", ".pyi", ".ipynb")


def watch(run: Callable[[], int], paths: Sequence[str]) -> int:
    """Runs once, then after each change below `paths`, until interrupted."""
    try:
        from watchfiles import Change
        from watchfiles import watch as changes
    except ImportError:
        raise click.UsageError("--watch needs watchfiles: pip install 'torch-graphlint[watch]'") from None
    if "-" in paths:
        raise click.UsageError("standard input cannot be watched")

    def matters(change: Change, path: str) -> bool:
        name = os.path.basename(path)
        hidden = any(part.startswith(".graphlint") or part == ".git" for part in Path(path).parts)
        return not hidden and (name.endswith(_SUFFIXES) or name in FILE_NAMES)

    status = _once(run)
    for _ in changes(*(paths or ["."]), watch_filter=matters, raise_interrupt=True):
        if sys.stdout is not None and sys.stdout.isatty():
            sys.stdout.write("\x1b[2J\x1b[H")
        status = _once(run)
    return status


def _once(run: Callable[[], int]) -> int:
    try:
        status = run()
    except (ConfigError, click.ClickException) as error:
        # A half-edited configuration must not end the watch.
        say(f"error: {error}")
        status = 2
    say("watching for changes, Ctrl-C ends")
    return status
