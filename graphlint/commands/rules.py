"""`graphlint rules`: all rules, one a line."""

from __future__ import annotations

import json
from pathlib import Path

import click

from graphlint.commands.output import emit
from graphlint.registry import load_rules


@click.command()
@click.option("--rule-folder", multiple=True, metavar="FOLDER", help="Rules of your own; their code is run.")
@click.option("--output-format", "-f", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def rules(rule_folder: tuple[str, ...], output_format: str) -> int:
    """List all rules: code, name, severity and what each finds."""
    registry = load_rules([Path(p) for p in rule_folder])
    every = registry.every
    if output_format == "json":
        keys = ("code", "name", "severity", "summary")
        emit(json.dumps([{key: getattr(r, key) for key in keys} for r in every], indent=2) + "\n")
        return 0
    size = max((len(r.name) for r in every), default=0)
    emit("".join(f"{r.code}  {r.name:{size}}  {r.severity:7}  {r.summary}\n" for r in every))
    return 0
