"""`python -m graphlint.runtime ...` is `graphlint trace ...`."""

from __future__ import annotations

from graphlint.runtime.cli_trace import trace_command

if __name__ == "__main__":
    trace_command(prog_name="graphlint trace")
