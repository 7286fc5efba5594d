"""`python -m graphlint.runtime ...` is `graphlint trace ...`."""

from __future__ import annotations

import sys

from graphlint.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "trace")
    main()
