"""The language server (extra `lsp`): findings as you type, over the unsaved texts of all open files.

server       the protocol: requests and notifications
session      documents, generations, runs, what is known
project      one project: configuration, warm program, a run
memory       what earlier runs of a capture's root found
positions, diagnostics, actions   findings as an editor counts and shows them
"""

from __future__ import annotations


def serve() -> None:
    """Serves one client over standard input and output."""
    from graphlint.lsp.features import serve as run

    run()
