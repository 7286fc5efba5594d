"""`graphlint config`: what holds, and where each value comes from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from graphlint.commands.output import emit
from graphlint.config import as_toml, check_rule_names, load
from graphlint.config_keys import user_file
from graphlint.registry import load_rules


@click.command()
@click.argument("path", default=".")
@click.option("--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help="A configuration file or value.")
@click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
@click.option("--output-format", "-f", type=click.Choice(["text", "json"]), default="text", help="How to print.")
def config(path: str, configs: tuple[str, ...], isolated: bool, output_format: str) -> int:
    """Show what configuration holds for PATH, and where each value comes from."""
    from graphlint.scope import find_scope

    start = Path(os.path.abspath(path))
    if not start.exists():
        raise click.UsageError(f"no such file or folder: {path}")
    files = [c for c in configs if "=" not in c or os.path.exists(c)]
    loaded = load(
        start if start.is_dir() else start.parent,
        file=Path(os.path.abspath(files[0])) if files else None,
        isolated=isolated,
        pairs=[c for c in configs if c not in files],
    )
    registry = load_rules([loaded.config.resolve(p) for p in loaded.config.rule_folder])
    checked = check_rule_names(loaded.config, registry.known)
    values = as_toml(checked)
    scope = find_scope([start], checked, {})
    about: dict[str, Any] = {
        "configuration file": str(checked.file) if checked.file else "none",
        "user configuration": f"{user_file()} ({'read' if user_file().is_file() and not isolated else 'not read'})",
        "project": str(checked.root),
        "import roots": [str(r) for r in scope.roots],
        "packages are read from": [str(s) for s in scope.site_packages],
        "files": len(scope.targets),
    }
    if output_format == "json":
        shown = {key: {"value": value, "from": loaded.origins[key]} for key, value in values.items()}
        emit(json.dumps({"about": about, "settings": shown}, indent=2) + "\n")
        return 0
    rows = []
    for title, value in about.items():
        if isinstance(value, list):
            value = ", ".join(value) or "none: calls of installed packages are not followed"
        rows.append(f"{title}: {value}")
    rows.append("")
    size = max(len(key) for key in values)
    for key, value in values.items():
        origin = loaded.origins[key]
        rows.append(f"{key:{size}} = {json.dumps(value)}" + ("" if origin == "default" else f"  # {origin}"))
    emit("\n".join(rows) + "\n")
    return 0
