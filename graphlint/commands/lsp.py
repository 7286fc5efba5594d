"""`graphlint lsp`: the language server, over standard input and output."""

from __future__ import annotations

import click


@click.command()
@click.option("--stdio", is_flag=True, help="Accepted for editors that pass it; there is no other way.")
def lsp(stdio: bool) -> int:
    """Serve an editor over standard input and output."""
    from graphlint.lsp import serve

    serve()
    return 0
