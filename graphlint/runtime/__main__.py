"""`python -m graphlint.runtime ...` is `graphlint trace ...`."""

from __future__ import annotations

import sys


def run() -> None:
    from graphlint.cli import main

    sys.argv.insert(1, "trace")
    main()


if __name__ == "__main__":
    run()
