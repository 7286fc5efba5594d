"""`graphlint trace`: runs a script and says what its captures did."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from graphlint.runtime.target import Target, TargetError


@click.command("trace", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--backend", type=click.Choice(["auto", "emulate", "cuda"]), default="auto", help="Where it runs.")
@click.option("--output-format", "-f", type=click.Choice(["text", "json"]), default="text", help="How to print.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to a file.")
@click.option("--timeout", type=float, default=600.0, help="Seconds that one run may take.")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def trace_command(
    backend: str, output_format: str, output: Path | None, timeout: float, target: str, arguments: tuple[str, ...]
) -> None:
    """Run TARGET (a script, or `package.module:callable`) with ARGUMENTS, and report what its captures did."""
    from graphlint.runtime.process import run
    from graphlint.runtime.spec import Spec

    wanted = Target(target, arguments)
    try:
        wanted.check()
    except TargetError as error:
        raise click.UsageError(str(error)) from None
    import torch  # noqa: F401  (loaded before the fork, so that each run starts at once)

    result = run(Spec(wanted, "emulate"), timeout)
    sys.exit(result.exit)
