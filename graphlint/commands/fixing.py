"""What `--fix` and `--diff` do: apply, analyse again, until nothing is left to fix."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from graphlint.cli import say
from graphlint.fix import ROUNDS, Change, FixError, changes, diff, digest, write
from graphlint.source import Source

if TYPE_CHECKING:
    from graphlint.commands.check import Run
    from graphlint.engine import Report


def diff_text(report: Report, run: Run) -> tuple[str, int]:
    """What all rounds of fixes would change, as one diff, and how many findings they would cure. Writes nothing."""
    first: dict[str, Source] = {}
    overlay: dict[Path, str] = dict(run.overlay)
    count = 0
    for _ in range(ROUNDS):
        made = _round(report, run, overlay)
        if not made:
            break
        for change in made:
            first.setdefault(str(change.path), change.source)
            overlay[change.path] = change.new
            count += change.fixes
        report = run.analyse(overlay)
    view = run.view()
    parts = [
        diff(Change(source, overlay[Path(path)], 0), view.path(path))
        for path, source in sorted(first.items())
        if source.text != overlay[Path(path)]
    ]
    return "".join(parts), count


def fix_all(report: Report, run: Run) -> tuple[Report, int, str | None]:
    """Writes the fixes; the report of what is left, how many findings were cured, and standard input's new text."""
    stdin = next(iter(run.overlay), None)
    count = 0
    for _ in range(ROUNDS):
        made = _round(report, run, run.overlay)
        done = 0
        for change in made:
            if stdin is not None:
                run.overlay[change.path] = change.new
            else:
                try:
                    write(change)
                except FixError as error:
                    say(str(error))
                    continue
            done += change.fixes
        if not done:
            break
        count += done
        report = run.analyse()
    else:
        say(f"warning: fixes still change something after {ROUNDS} rounds; please report this")
    return report, count, run.overlay[stdin] if stdin is not None else None


def _round(report: Report, run: Run, overlay: Mapping[Path, str]) -> list[Change]:
    texts = {str(path): text for path, text in overlay.items()}
    digests = {**report.digests, **{path: digest(text) for path, text in texts.items()}}
    made: list[Change] = []
    for change in changes(report.findings, digests, unsafe=run.options["unsafe_fixes"], texts=texts):
        if isinstance(change, FixError):
            say(str(change))
        else:
            made.append(change)
    return made
