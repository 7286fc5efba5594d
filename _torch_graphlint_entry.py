"""The commands' entry point, outside the package, so that it can speak when another distribution took its place.

An unrelated distribution called `graphlint` has an import package of the same name. pip installs both without a word;
the later one overwrites files of the other. Neither works then, so this says what happened and how to mend it.
"""

from __future__ import annotations

import os
import sys

_ADVICE = (
    "graphlint: the unrelated distribution `graphlint` is installed in this environment and takes the place of "
    "torch-graphlint's package; mend it with: pip uninstall -y graphlint torch-graphlint && pip install torch-graphlint"
)


def main() -> None:
    """Runs the command line, or exits with status 2 and one line if the package is not ours alone."""
    try:
        if clash():
            print(_ADVICE, file=sys.stderr)
            sys.exit(2)
        from graphlint.cli import script as run
    except KeyboardInterrupt:
        print("graphlint: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


def clash() -> bool:
    """Whether `graphlint` is another distribution's package, or shares its folder with one."""
    try:
        import graphlint
    except ImportError:
        return True
    if getattr(graphlint, "__distribution__", None) != "torch-graphlint" or graphlint.__file__ is None:
        return True
    folder = os.path.dirname(os.path.dirname(os.path.abspath(graphlint.__file__)))
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return any(name.startswith("graphlint-") and name.endswith((".dist-info", ".egg-info")) for name in names)
