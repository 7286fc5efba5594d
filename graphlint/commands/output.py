"""Standard output, with or without colour, and report files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from graphlint.cli import ClosedPipe

if TYPE_CHECKING:
    pass


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
