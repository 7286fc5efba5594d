"""`graphlint new-rule NAME`: a rule's folder with the next free code and examples that fail until it is written."""

from __future__ import annotations

import re
from pathlib import Path

import click

from graphlint.commands.output import emit
from graphlint.registry import load_rules, own_folder

_RULE = '''"""{title}: what goes wrong, in one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from graphlint.fact import HostRead
from graphlint.finding import Problem
from graphlint.region import Region
from graphlint.rule import rule


@rule("{code}", "{name}", "warning", "say in one line what it finds")
def check(region: Region) -> Iterator[Problem]:
    for fact in region.captured:
        if isinstance(fact, HostRead) and fact.op == "write the condition here":
            yield Problem(fact.at, f"`{{fact.text}}` does this, so that happens at every replay", region.way(fact))
'''
_PAGE = """# {code} {name}

## What it finds

## Why it breaks

## Do this instead

## What is fine

## How it was measured
"""
_BAD = '''"""What goes wrong here, in one line."""

import torch

static = torch.zeros(8, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = static + 1  # expect: {name}
graph.replay()
'''
_GOOD = '''"""Why this is fine, in one line."""

import torch

static = torch.zeros(8, device="cuda")
graph = torch.cuda.CUDAGraph()
static + 1
with torch.cuda.graph(graph):
    out = static + 1
graph.replay()
'''


@click.command()
@click.argument("name")
@click.option("--rule-folder", metavar="FOLDER", help="Where rules of your own are kept.")
def new_rule(name: str, rule_folder: str | None) -> int:
    """Start the folder of a rule called NAME (kebab case: the bad pattern, such as `host-sync`)."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise click.UsageError(f"`{name}` is not kebab case, such as `host-sync`")
    root = _root(rule_folder)
    registry = load_rules([root] if root != own_folder() and any(root.glob("*/rule.py")) else [])
    if registry.find(name) is not None:
        raise click.UsageError(f"there is a rule `{name}` already")
    prefix, start = ("GL", 1) if root == own_folder() else ("USR", 1)
    used = {rule.code for rule in registry.every}
    code = next(c for n in range(start, 1000) if (c := f"{prefix}{n:03d}") not in used)
    folder = root / f"{code.lower()}_{name.replace('-', '_')}"
    words = {"code": code, "name": name, "title": name.replace("-", " ").capitalize()}
    try:
        folder.mkdir(parents=True)
        for file, text in (
            ("rule.py", _RULE),
            ("README.md", _PAGE),
            ("bad_script.py", _BAD),
            ("good_script.py", _GOOD),
        ):
            (folder / file).write_text(text.format(**words), encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"{folder}: cannot be written: {error.strerror or error}") from None
    emit(f"{folder}: {code}[{name}]\nwrite the page and the examples first, then the check in rule.py\n")
    return 0


def _root(rule_folder: str | None) -> Path:
    if rule_folder is not None:
        return Path(rule_folder)
    own = own_folder()
    if own.name == "rules" and (own.parent / "pyproject.toml").is_file():
        return own
    raise click.UsageError("say with --rule-folder where rules of your own are kept")
